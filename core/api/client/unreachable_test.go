// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAnAgentThatAnswersOtherwiseIsNotCalledSilent(t *testing.T) {
	plain, secure, mutual := httptest.NewServer(echo), httptest.NewUnstartedServer(echo), httptest.NewUnstartedServer(echo)
	mutual.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	for _, srv := range []*httptest.Server{secure, mutual} {
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.StartTLS()
		defer srv.Close()
	}
	defer plain.Close()
	authority := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: mutual.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, cfg := range map[string]client.Config{
		"is not trusted; name the authority that signed it (-ca-cert": {Address: secure.URL},
		"does not accept this client; if it wants a certificate":      {Address: mutual.URL, CACert: authority},
		"speaks HTTP without TLS; give its address with http://":      {Address: strings.Replace(plain.URL, "http:", "https:", 1)},
		"speaks HTTPS; give its address with https://":                {Address: strings.Replace(secure.URL, "https:", "http:", 1)},
		"does not answer; is it running":                              {Address: "http://127.0.0.1:1"},
	} {
		_, err := mustNew(t, cfg).Get(t.Context(), "/v1/x", nil, nil)
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}

func TestACertificateThatIsOutOfTimeIsNotCalledUntrusted(t *testing.T) {
	a := testkit.NewAuthority(t)
	good, late, early := a.Machine("good", "agent.test", true), a.Expired("late", "agent.test"), a.Early("early", "agent.test")
	serve := func(files rpc.TLS, mode tls.ClientAuthType) string {
		pair, err := tls.LoadX509KeyPair(files.CertFile, files.KeyFile)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		authority, err := os.ReadFile(files.CAFile)
		if err != nil || !roots.AppendCertsFromPEM(authority) {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(echo)
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: mode, ClientCAs: roots}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	strict := serve(good, tls.RequireAndVerifyClientCert)
	for _, c := range []struct {
		address string
		own     rpc.TLS
		says    string
	}{
		{serve(late, tls.NoClientCert), good, "has expired or is not valid yet"},
		{serve(early, tls.NoClientCert), good, "has expired or is not valid yet"},
		{strict, late, "late.pem is valid only until "},
		{strict, early, "early.pem is valid only from "},
	} {
		_, err := mustNew(t, client.Config{Address: c.address, TLSServerName: "agent.test", CACert: c.own.CAFile, ClientCert: c.own.CertFile, ClientKey: c.own.KeyFile}).Get(t.Context(), "/v1/x", nil, nil)
		if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "clock") {
			t.Errorf("got %v, want an error that says %q", err, c.says)
		}
	}
}
