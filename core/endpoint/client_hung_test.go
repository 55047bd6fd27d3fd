// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// hung is a node whose session is open and whose agent is suspended.
type hung struct{ rpc.Node }

func (hung) Call(ctx context.Context, _ rpc.Call, _ <-chan []byte, _ func([]byte) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestANodeThatHangsIsNamedInsteadOfADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		find := func(string) (rpc.Node, error) { return hung{}, nil }
		c := endpoint.Calls{OfAlloc: find, ByID: find}
		const why = " has not answered within 30s: its agent is suspended or overloaded, or its machine has just gone; try again later"
		_, err := c.NodeCluster(t.Context(), "n1", false)
		if err == nil || err.Error() != `node "n1"`+why || !errdefs.IsDeadlineExceeded(err) {
			t.Errorf("%v", err)
		}
		if _, err := c.AllocChecks(t.Context(), "a1"); err == nil || err.Error() != `the node of allocation "a1"`+why {
			t.Errorf("%v", err)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.NodeMeta(gone, ""); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that has gone: %v", err)
		}
	})
}
