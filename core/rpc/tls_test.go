// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// opened reads the files of a machine; without TLS it returns nil.
func opened(t *testing.T, m *rpc.TLS) *rpc.Credentials {
	t.Helper()
	if m == nil {
		return nil
	}
	c, err := m.Open(hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serveTLS serves a fake with a machine's TLS and returns its address.
func serveTLS(t *testing.T, m rpc.TLS) (*fake, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	server := rpc.NewServer(f, opened(t, &m).Server("h2"), hclog.NewNullLogger())
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
				client, err = rpc.Dial(c.address, opened(t, c.machine).Client())
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
		client, err := rpc.Dial(address, opened(t, &node).Client())
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
		if _, err := m.Open(hclog.NewNullLogger()); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// reaches reports whether a machine can make a call to a server.
func reaches(t *testing.T, machine *rpc.Credentials, address string) error {
	t.Helper()
	client, err := rpc.Dial(address, machine.Client())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.Register(t.Context(), &model.Node{ID: "n"})
	return err
}

// copyFile writes the files, one after the other, to another file.
func copyFile(t *testing.T, to string, from ...string) {
	t.Helper()
	var all []byte
	for _, f := range from {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	if err := os.WriteFile(to, all, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnAuthorityIsReplacedWhileMachinesTalk(t *testing.T) {
	before, after := testkit.NewAuthority(t), testkit.NewAuthority(t)
	oldServer, newServer := before.Machine("server", "server.global.nomad", true), after.Machine("server", "server.global.nomad", true)
	oldNode, newNode := before.Machine("node", "client.global.nomad", true), after.Machine("node", "client.global.nomad", true)
	live := func(name string, m rpc.TLS) rpc.TLS { // files of its own
		at := func(f string) string { return filepath.Join(t.TempDir(), name+f) }
		out := m
		out.CAFile, out.CertFile, out.KeyFile = at("ca"), at("cert"), at("key")
		copyFile(t, out.CAFile, m.CAFile)
		copyFile(t, out.CertFile, m.CertFile)
		copyFile(t, out.KeyFile, m.KeyFile)
		return out
	}
	server, node := live("server", oldServer), live("node", oldNode)
	_, address := serveTLS(t, server)
	mine := opened(t, &node)
	works := func(when string) {
		t.Helper()
		if err := reaches(t, mine, address); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	works("before")
	copyFile(t, server.CAFile, oldServer.CAFile, newServer.CAFile)
	works("the server trusts both")
	copyFile(t, node.CAFile, oldServer.CAFile, newServer.CAFile)
	works("both trust both")
	copyFile(t, server.CertFile, newServer.CertFile)
	works("the server's certificate is new, and its key is not written yet")
	copyFile(t, server.KeyFile, newServer.KeyFile)
	works("the server has a new certificate")
	copyFile(t, node.CertFile, newNode.CertFile)
	copyFile(t, node.KeyFile, newNode.KeyFile)
	works("the node has, too")
	late := live("late", oldNode) // whose certificate is not replaced yet
	copyFile(t, late.CAFile, oldServer.CAFile, newServer.CAFile)
	old := opened(t, &late)
	if err := reaches(t, old, address); err != nil {
		t.Errorf("a node of the old authority before it is removed: %v", err)
	}
	copyFile(t, server.CAFile, newServer.CAFile)
	copyFile(t, node.CAFile, newServer.CAFile)
	works("nobody trusts the old one")
	if err := reaches(t, old, address); err == nil {
		t.Error("a certificate of the removed authority is accepted")
	}
	if err := reaches(t, opened(t, &oldNode), address); err == nil {
		t.Error("a node that trusts only the old authority accepts the server")
	}
}

func TestAReloadWithFilesThatCannotBeUsedChangesNothing(t *testing.T) {
	a := testkit.NewAuthority(t)
	server := a.Machine("server", "server.global.nomad", true)
	_, address := serveTLS(t, server)
	node := a.Machine("node", "client.global.nomad", true)
	c := opened(t, &node)
	wrong := node
	wrong.KeyFile = server.KeyFile
	if err := c.Reload(wrong); err == nil {
		t.Error("the key of another certificate is accepted")
	}
	if err := reaches(t, c, address); err != nil {
		t.Errorf("after a reload that failed: %v", err)
	}
	if err := os.Remove(node.CertFile); err != nil {
		t.Fatal(err)
	}
	if err := reaches(t, c, address); err != nil {
		t.Errorf("after the certificate was removed: %v", err)
	}
}

func TestAServerUsesNoCertificateWithWhichItMayNotActAsOne(t *testing.T) {
	a := testkit.NewAuthority(t)
	good, node := a.Machine("server", "server.global.nomad", true), a.Machine("node", "client.global.nomad", true)
	good.Server, node.Server = true, true
	if _, err := node.Open(hclog.NewNullLogger()); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "tls cert create -server") {
		t.Errorf("a server begins with a node's certificate: %v", err)
	}
	c := opened(t, &good)
	if err := c.Reload(node); err == nil {
		t.Error("a server takes a node's certificate at a reload")
	}
	unchecked := node
	unchecked.VerifyServerHostname = false
	opened(t, &unchecked)
	node.Server = false
	opened(t, &node)
}

func TestAnExpiredCertificateIsRefusedAndTheLogOfItsOwnerSaysSo(t *testing.T) {
	a := testkit.NewAuthority(t)
	_, address := serveTLS(t, a.Machine("server", "server.global.nomad", true))
	node := a.Expired("node", "client.global.nomad")
	said := &testkit.Journal{}
	c, err := node.Open(hclog.New(&hclog.LoggerOptions{Output: said}))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "has expired") {
		t.Errorf("the log says\n%s", said)
	}
	if err := reaches(t, c, address); err == nil {
		t.Error("an expired certificate is accepted")
	}
	_, expired := serveTLS(t, a.Expired("late", "server.global.nomad"))
	good := a.Machine("good", "client.global.nomad", true)
	if err := reaches(t, opened(t, &good), expired); err == nil {
		t.Error("a server whose certificate has expired is accepted")
	}
}

func TestACertificateThatIsNotValidYetIsRefusedAndTheLogOfItsOwnerSaysSo(t *testing.T) {
	a := testkit.NewAuthority(t)
	_, address := serveTLS(t, a.Machine("server", "server.global.nomad", true))
	node := a.Early("node", "client.global.nomad")
	said := &testkit.Journal{}
	c, err := node.Open(hclog.New(&hclog.LoggerOptions{Output: said}))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "is not valid yet") || strings.Contains(said.String(), "authority") {
		t.Errorf("the log says\n%s", said)
	}
	if err := reaches(t, c, address); err == nil {
		t.Error("a certificate that is not valid yet is accepted")
	}
}

func TestCipherSuitesAndTheLowestVersionHoldForBothSides(t *testing.T) {
	a := testkit.NewAuthority(t)
	server := a.Machine("server", "server.global.nomad", true)
	server.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384}
	_, address := serveTLS(t, server)
	node := a.Machine("node", "client.global.nomad", true)
	for name, c := range map[string]struct {
		suites []uint16
		works  bool
	}{
		"the same":  {server.CipherSuites, true},
		"any":       {nil, true},
		"none both": {[]uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}, false},
	} {
		node.CipherSuites = c.suites
		config := opened(t, &node).Client()
		config.MaxVersion = tls.VersionTLS12
		conn, err := tls.Dial("tcp", address, config)
		if works := err == nil; works != c.works {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil {
			if got := conn.ConnectionState().CipherSuite; got != server.CipherSuites[0] {
				t.Errorf("%s: they use %s", name, tls.CipherSuiteName(got))
			}
			conn.Close()
		}
	}
	strict := a.Machine("strict", "server.global.nomad", true)
	strict.MinVersion = tls.VersionTLS13
	_, modern := serveTLS(t, strict)
	config := opened(t, &node).Client()
	config.MaxVersion = tls.VersionTLS12
	if conn, err := tls.Dial("tcp", modern, config); err == nil {
		conn.Close()
		t.Error("TLS 1.2 is accepted although the lowest version is 1.3")
	}
}

func TestTheHTTPPortAsksForCertificatesAndShowsItsNewOneAfterAReload(t *testing.T) {
	a, other := testkit.NewAuthority(t), testkit.NewAuthority(t)
	agent := a.Machine("agent", "server.global.nomad", true)
	c := opened(t, &agent)
	l, err := tls.Listen("tcp", "127.0.0.1:0", c.HTTP())
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	get := func(trusted, mine *rpc.TLS) error {
		t.Helper()
		text, err := os.ReadFile(trusted.CAFile)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(text)
		config := &tls.Config{RootCAs: roots, ServerName: "server.global.nomad"}
		if mine != nil {
			pair, err := tls.LoadX509KeyPair(mine.CertFile, mine.KeyFile)
			if err != nil {
				t.Fatal(err)
			}
			config.Certificates = []tls.Certificate{pair}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		resp, err := client.Get("https://" + l.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	user := a.Machine("user", "cli.global.nomad", true)
	if err := get(&agent, nil); err != nil {
		t.Errorf("without verify_https_client: %v", err)
	}
	agent.VerifyClients = true
	if err := c.Reload(agent); err != nil {
		t.Fatal(err)
	}
	if err := get(&agent, nil); err == nil {
		t.Error("a client without a certificate is served")
	}
	if err := get(&agent, &user); err != nil {
		t.Errorf("a client with a certificate: %v", err)
	}
	next := other.Machine("agent", "server.global.nomad", true)
	next.VerifyClients = true
	if err := c.Reload(next); err != nil {
		t.Fatal(err)
	}
	if err := get(&next, &user); err == nil {
		t.Error("a client of the old authority is served")
	}
	reader := other.Machine("user", "cli.global.nomad", true)
	if err := get(&next, &reader); err != nil {
		t.Errorf("after the reload: %v", err)
	}
}
