// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/peer"
)

// The time that a request waits for a leader begins when it needs another one, not when the
// request came: a leader may be lost a long time after that.
func TestARequestWaitsForTheNextLeaderAlsoIfItWasLongAtTheLastOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e election
		p := peer.New(peer.Config{ID: "one", Consensus: &e, Leader: e.Leader, Logger: hclog.NewNullLogger()})
		e.set(true, "one", "")
		tries := 0
		err := p.Lead(t.Context(), func(context.Context) error {
			if tries++; tries > 1 {
				return nil
			}
			time.Sleep(time.Minute) // in the time of the test
			e.set(false, "", "")
			time.AfterFunc(time.Second, func() { e.set(true, "one", "") })
			return refusal()
		})
		if err != nil || tries != 2 {
			t.Errorf("after %d tries: %v", tries, err)
		}
	})
}
