// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"errors"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

const oneCanary = `update {
      canary           = 1
      min_healthy_time = "0s"
    }`

func TestAPromotionIsAnEventOfItsDeployment(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 1, oneCanary, "exec sleep 1000"))
	a.Await("web", model.AllocClientStatusRunning, 1)
	a.Run(harness.Shell("web", "service", 1, oneCanary, "exec sleep 1001"))
	a.Eventually(harness.Patience, "the canary is healthy", func() bool {
		_, code := a.CLI("job", "promote", "-detach", "web")
		return code == 0
	})
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	found := errors.New("found")
	err := a.Events(ctx, []string{"Deployment"}, 1, func(b *api.EventBatch) error {
		for _, e := range b.Events {
			if e.Type == "DeploymentPromotion" && e.Topic == "Deployment" && e.Namespace == "default" {
				return found
			}
		}
		return nil
	})
	if !errors.Is(err, found) {
		t.Errorf("the stream has no event of the promotion: %v", err)
	}
}
