// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"context"

	network "github.com/drover-project/drover/sdk/network/v1"
)

// Look lets the plugin look at the machine on the caller's thread, which may be in a namespace.
func (n *Network) Look(ctx context.Context) network.Fingerprint { return n.look(ctx) }

// Settle waits until no flow waits to be forgotten: the next plugin on the machine may give out
// the same addresses.
func (n *Network) Settle(ctx context.Context) { n.flows.wait(ctx) }
