// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"encoding/pem"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/command"
)

// whoAsks answers the query for the leader with the token and the parameters of the
// request.
var whoAsks = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, `"`+r.Header.Get("X-Nomad-Token")+" "+r.URL.RawQuery+`"`) // an error means that the client is gone
})

func TestTheEnvironmentAndFlagsSayWhereToConnect(t *testing.T) {
	plain := httptest.NewServer(whoAsks)
	defer plain.Close()
	secure := httptest.NewTLSServer(whoAsks)
	defer secure.Close()
	dir := t.TempDir()
	ca := filepath.Join(dir, "cas", "ca.pem")
	if err := os.Mkdir(filepath.Dir(ca), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "d.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	local := &httptest.Server{Listener: l, Config: &http.Server{Handler: whoAsks, ReadHeaderTimeout: time.Second}}
	local.Start()
	defer local.Close()
	for name, c := range map[string]struct {
		env   map[string]string
		flags string
		want  string // in the output or the error
		code  int
	}{
		"the reference's variables": {map[string]string{"NOMAD_ADDR": plain.URL, "NOMAD_TOKEN": "tok", "NOMAD_REGION": "eu", "NOMAD_NAMESPACE": "dev"}, "", `"tok namespace=dev&region=eu"`, 0},
		"ours are stronger":         {map[string]string{"NOMAD_ADDR": "http://127.0.0.1:1", "DROVER_ADDR": plain.URL, "NOMAD_TOKEN": "old", "DROVER_TOKEN": "new"}, "", `"new "`, 0},
		"flags are stronger":        {map[string]string{"DROVER_ADDR": "http://127.0.0.1:1", "DROVER_NAMESPACE": "dev"}, "-address " + plain.URL + " -namespace prod", `" namespace=prod"`, 0},
		"an address without scheme": {nil, "-address " + strings.TrimPrefix(plain.URL, "http://"), `" "`, 0},
		"a unix socket":             {nil, "-address unix://" + socket, `" "`, 0},
		"an unknown authority":      {map[string]string{"DROVER_ADDR": secure.URL}, "", "certificate", 1},
		"a CA file":                 {map[string]string{"DROVER_ADDR": secure.URL}, "-ca-cert " + ca, `" "`, 0},
		"a CA folder":               {map[string]string{"DROVER_ADDR": secure.URL, "NOMAD_CAPATH": filepath.Dir(ca)}, "", `" "`, 0},
		"another name":              {map[string]string{"DROVER_ADDR": secure.URL}, "-ca-cert " + ca + " -tls-server-name other", "not other", 1},
		"no verification":           {map[string]string{"DROVER_ADDR": secure.URL}, "-tls-skip-verify", `" "`, 0},
		"no verification by env":    {map[string]string{"DROVER_ADDR": secure.URL, "NOMAD_SKIP_VERIFY": "true"}, "", `" "`, 0},
		"a certificate that is not": {map[string]string{"DROVER_ADDR": secure.URL}, "-client-cert " + ca + " -client-key " + ca, "load the client certificate", 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFake(t, nil).at(t, func(stdio *command.IO) {
				delete(stdio.Env, "DROVER_ADDR")
				maps.Copy(stdio.Env, c.env)
			}, append([]string{"operator", "api", "/v1/status/leader"}, strings.Fields(c.flags)...)...)
			if r.code != c.code || !strings.Contains(r.out+r.err, c.want) {
				t.Errorf("exit code %d, want %d and %s:\n%s%s", r.code, c.code, c.want, r.out, r.err)
			}
		})
	}
}

func TestWhatTheAgentDidNotActOnIsPrintedOnce(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Drover-Warning", "parameter \"x\" is not acted on")
		_, _ = io.WriteString(w, "[]") // an error means that the client is gone
	}))
	defer srv.Close()
	f := &fake{Server: srv}
	for _, line := range []string{"node status", "operator api /v1/nodes?x=1"} {
		r := f.at(t, nil, strings.Fields(line)...)
		if r.code != 0 || r.err != "Warning: parameter \"x\" is not acted on\n" {
			t.Errorf("%s: exit code %d, %q", line, r.code, r.err)
		}
	}
}
