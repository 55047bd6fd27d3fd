// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api/client"
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
