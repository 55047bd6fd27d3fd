// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"net"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// serveTLS serves a fake with a machine's TLS and returns its address.
func serveTLS(t *testing.T, m rpc.TLS) (*fake, string) {
	t.Helper()
	config, err := m.Server()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	server := rpc.NewServer(f, config, hclog.NewNullLogger())
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f, l.Addr().String()
}

func TestMachinesOfOneAuthorityTalkAndNobodyElseDoes(t *testing.T) {
	ours, theirs := testkit.NewAuthority(t), testkit.NewAuthority(t)
	server := ours.Machine("server", "server.global.nomad", true)
	f, address := serveTLS(t, server)
	_, impostor := serveTLS(t, ours.Machine("impostor", "client.global.nomad", true))
	node := ours.Machine("node", "client.global.nomad", true)
	lax := node
	lax.VerifyServerHostname = false
	stranger := theirs.Machine("stranger", "client.global.nomad", false)
	believer := stranger // trusts us, but its own certificate is of its own authority
	believer.CAFile = node.CAFile
	for name, c := range map[string]struct {
		machine *rpc.TLS
		address string
		works   bool
	}{
		"a node":                                {&node, address, true},
		"a node that does not verify names":     {&lax, address, true},
		"a node meets a node that plays server": {&node, impostor, false},
		"the same without verification":         {&lax, impostor, true},
		"a certificate of another authority":    {&stranger, address, false},
		"it even where it trusts the server":    {&believer, address, false},
		"no TLS at all":                         {nil, address, false},
	} {
		t.Run(name, func(t *testing.T) {
			var client *rpc.Client
			var err error
			if c.machine == nil {
				client, err = rpc.Dial(c.address, nil)
			} else {
				config, configErr := c.machine.Client()
				if configErr != nil {
					t.Fatal(configErr)
				}
				client, err = rpc.Dial(c.address, config)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Register(t.Context(), &model.Node{ID: "n"})
			if works := err == nil; works != c.works || !works && !errdefs.IsUnavailable(err) {
				t.Errorf("registering: %v", err)
			}
		})
	}
	if f.node == nil {
		t.Error("nobody got through")
	}
}

func TestARenewedCertificateNeedsNoRestartAndWrongFilesAreNamed(t *testing.T) {
	a := testkit.NewAuthority(t)
	server := a.Machine("server", "other.name", true)
	_, address := serveTLS(t, server)
	node := a.Machine("node", "client.global.nomad", true)
	register := func() error {
		config, err := node.Client()
		if err != nil {
			t.Fatal(err)
		}
		client, err := rpc.Dial(address, config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, err = client.Register(t.Context(), &model.Node{ID: "n"})
		return err
	}
	if err := register(); err == nil {
		t.Fatal("a server of another name is believed")
	}
	a.Machine("server", "server.global.nomad", true) // over the old files
	if err := register(); err != nil {
		t.Fatalf("after the renewal: %v", err)
	}
	for name, m := range map[string]rpc.TLS{
		"no authority":       {CAFile: "/none", CertFile: node.CertFile, KeyFile: node.KeyFile},
		"no certificate":     {CAFile: node.CAFile, CertFile: "/none", KeyFile: node.KeyFile},
		"a key of another":   {CAFile: node.CAFile, CertFile: node.CertFile, KeyFile: server.KeyFile},
		"a key as authority": {CAFile: node.KeyFile, CertFile: node.CertFile, KeyFile: node.KeyFile},
	} {
		if _, err := m.Server(); err == nil {
			t.Errorf("%s is taken by a server", name)
		}
		if _, err := m.Client(); err == nil {
			t.Errorf("%s is taken by a node", name)
		}
	}
}
