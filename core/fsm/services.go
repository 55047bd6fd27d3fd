// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// DeleteService removes a registration of a service, until its alloc is updated or its task
// starts again.
type DeleteService struct {
	Namespace string
	Name      string
	ID        string
}

func (*DeleteService) kind() byte { return kindDeleteService }

func (c *DeleteService) apply(tx *state.Tx) error {
	r := tx.View().ServiceByID(c.Namespace, c.ID)
	if r == nil || r.ServiceName != c.Name {
		return errdefs.NotFoundf("service registration not found")
	}
	tx.Deregister(r)
	return nil
}
