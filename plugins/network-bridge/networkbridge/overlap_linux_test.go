// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

func TestAPortThatCannotBeForwardedToTheBridgeIsRefused(t *testing.T) {
	b := newBed(t)
	create := func(ports ...network.Port) error {
		n := b.fresh()
		_, err := n.Create(t.Context(), network.Request{AllocID: "web", Network: "bridge", Ports: ports})
		if derr := n.Destroy(t.Context(), "web"); derr != nil {
			t.Fatal(derr)
		}
		return err
	}
	four, six := network.Port{Label: "http", HostIP: "127.0.0.1", HostPort: 20000, Port: 80}, network.Port{Label: "http", HostIP: "fd00::1", HostPort: 20000, Port: 80}
	loopback := network.Port{Label: "admin", HostIP: "::1", HostPort: 20001, Port: 81}
	refused := func(err error, want string) {
		t.Helper()
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	refused(create(four, loopback), `port "admin" is on ::1`)
	if err := create(six); err != nil {
		t.Error(err)
	}
	delete(b.config, "bridge_network_subnet_ipv6")
	refused(create(six), "set bridge_network_subnet_ipv6")
	if err := create(four, six); err != nil { // the port has an address that works
		t.Error(err)
	}
}
