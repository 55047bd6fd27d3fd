// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DeleteService removes a registration of a service.
func (e *Endpoint) DeleteService(ctx context.Context, namespace, name, id string) (uint64, error) {
	if r := e.Store.View().ServiceByID(namespace, id); r == nil || r.ServiceName != name {
		return 0, errdefs.Internalf("service registration not found") // the reference answers 500
	}
	return e.propose(ctx, &fsm.DeleteService{Namespace: namespace, Name: name, ID: id})
}
