// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/rpc"
)

func TestCertificatesOfTheCommandsRunACluster(t *testing.T) {
	t.Chdir(t.TempDir())
	must := func(args ...string) string {
		t.Helper()
		r := execute(t, nil, args...)
		if r.code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, r.code, r.out, r.err)
		}
		return r.out
	}
	must("tls", "ca", "create", "-name-constraint", "-additional-domain", "example.com", "-days", "30", "-organization", "Us")
	must("tls", "cert", "create", "-server", "-region", "eu", "-days", "10", "-additional-dnsname", "a.example.com", "-additional-ipaddress", "10.0.0.1")
	must("tls", "cert", "create", "-client", "-days", "10")
	must("tls", "cert", "create", "-cli", "-days", "10")
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, e := range entries {
		files = append(files, e.Name())
		info, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if secret := strings.HasSuffix(e.Name(), "-key.pem"); secret != (info.Mode().Perm() == 0o600) {
			t.Errorf("%s has mode %s", e.Name(), info.Mode())
		}
	}
	want := []string{
		"eu-server-nomad-key.pem", "eu-server-nomad.pem", "global-cli-nomad-key.pem", "global-cli-nomad.pem",
		"global-client-nomad-key.pem", "global-client-nomad.pem", "nomad-agent-ca-key.pem", "nomad-agent-ca.pem",
	}
	if !slices.Equal(files, want) {
		t.Errorf("files %q, want %q", files, want)
	}
	if _, err := (rpc.TLS{CAFile: "nomad-agent-ca.pem", CertFile: "eu-server-nomad.pem", KeyFile: "eu-server-nomad-key.pem", Region: "eu"}).Open(hclog.NewNullLogger()); err != nil {
		t.Error(err)
	}
	if out := must("tls", "cert", "info", "eu-server-nomad.pem"); !strings.Contains(out, "server.eu.nomad, localhost, a.example.com") || !strings.Contains(out, "10.0.0.1") {
		t.Errorf("cert info\n%s", out)
	}
	if out := must("tls", "ca", "info", "-json", "nomad-agent-ca.pem"); !strings.Contains(out, `"Authority": true`) {
		t.Errorf("ca info\n%s", out)
	}
	if out := must("tls", "ca", "info", "nomad-agent-ca.pem"); !strings.Contains(out, "nomad, localhost, example.com") {
		t.Errorf("ca info\n%s", out)
	}
}

func TestWhatTheCommandsOfCertificatesRefuse(t *testing.T) {
	t.Chdir(t.TempDir())
	refused := func(want string, args ...string) {
		t.Helper()
		if r := execute(t, nil, args...); r.code != 1 || !strings.Contains(r.err, want) {
			t.Errorf("%v: exit code %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	refused("drover tls ca create", "tls", "cert", "create", "-server")
	if r := execute(t, nil, "tls", "ca", "create"); r.code != 0 {
		t.Fatal(r.err)
	}
	before, err := os.ReadFile("nomad-agent-ca-key.pem")
	if err != nil {
		t.Fatal(err)
	}
	refused("exists and is not overwritten", "tls", "ca", "create")
	if err := os.Remove("nomad-agent-ca-key.pem"); err != nil {
		t.Fatal(err)
	}
	refused("nomad-agent-ca.pem exists", "tls", "ca", "create")
	if _, err := os.Stat("nomad-agent-ca-key.pem"); err == nil {
		t.Error("a key without its certificate stays behind")
	}
	if err := os.WriteFile("nomad-agent-ca-key.pem", before, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("-server, -client or -cli", "tls", "cert", "create")
	refused("only one of", "tls", "cert", "create", "-server", "-cli")
	refused("is not an IP address", "tls", "cert", "create", "-server", "-additional-ipaddress", "x")
	refused("before the new certificate", "tls", "cert", "create", "-server", "-days", "4000")
	refused("at least a day", "tls", "cert", "create", "-server", "-days", "0")
	refused("no effect without -name-constraint", "tls", "ca", "create", "-domain", "x", "-additional-domain", "y")
	refused("there is no certificate", "tls", "cert", "info", "nomad-agent-ca-key.pem")
	refused("drover tls ca info", "tls", "cert", "info", "nomad-agent-ca.pem")
}
