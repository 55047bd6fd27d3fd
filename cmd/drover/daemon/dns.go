// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"github.com/drover-project/drover/core/agent"
	"github.com/drover-project/drover/core/config"
)

// dnsConfig returns the configuration of the node's DNS server; nil without one.
func dnsConfig(c *config.DNS) *agent.DNS {
	if !c.Enabled {
		return nil
	}
	n, err := c.Names()
	if err != nil { // Finish has refused it
		return nil
	}
	return &agent.DNS{
		Addresses: n.Addresses, Port: n.Port, Domain: n.Domain, TTL: n.TTL, Recursors: n.Recursors, Allow: n.Allow, Rate: n.Rate, Tasks: n.Tasks,
	}
}
