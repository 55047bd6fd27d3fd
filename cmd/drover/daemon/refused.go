// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/config"
)

// refusals lists the flags of the reference that Drover does not support, by reason.
// They cause an error instead of being ignored, since whoever sets one relies on it.
var refusals = []struct{ why, texts, bools string }{
	{"there are no ACLs yet", "acl-replication-token", "acl-enabled"},
	{"Consul registers the services of nodes only, and agents find each other by other means", `consul-server-failures-before-critical
		consul-server-failures-before-warning consul-server-http-check-name consul-server-rpc-check-name
		consul-server-serf-check-name consul-server-service-name`, `consul-client-auto-join consul-server-auto-join`},
	{"checks of the node always ask its advertised address", "", "consul-checks-use-advertise"},
	{"no Consul agent is started; use -consul-address", "", "dev-connect dev-consul"},
	{"there is no Vault integration", `vault-address vault-ca-file vault-ca-path vault-cert-file vault-create-from-role
		vault-key-file vault-tls-server-name vault-token`, "vault-allow-unauthenticated vault-enabled vault-tls-skip-verify dev-vault"},
	{"the agent does not write to the event log of Windows", "eventlog-level", "eventlog"},
	{"tasks use the address of -network-interface", "preferred-address-family", ""},
}

// refuse declares the unsupported flags.
func (o *options) refuse() {
	o.consulFlags()
	for _, r := range refusals {
		refusal := func(isBool bool) func(*config.Config, string) error {
			return func(_ *config.Config, v string) error {
				if isBool && v == "false" {
					return nil
				}
				return errors.New(r.why + "; leave the flag out")
			}
		}
		for _, name := range strings.Fields(r.texts) {
			o.add(name, "Refused: "+r.why+".", false, refusal(false))
		}
		for _, name := range strings.Fields(r.bools) {
			o.add(name, "Refused: "+r.why+".", true, refusal(true))
		}
	}
	o.add("raft-protocol", "Version of the raft protocol; must be 3.", false, func(_ *config.Config, v string) error {
		if v != "3" {
			return fmt.Errorf("version %q is not supported, only 3 is; leave the flag out", v)
		}
		return nil
	})
	o.add("network-speed", "Speed of the network interface in MBit/s.", false, func(c *config.Config, v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a speed in MBit/s", v)
		}
		c.Client.NetworkSpeed = n
		return nil
	})
}
