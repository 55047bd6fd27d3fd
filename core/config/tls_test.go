// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"crypto/tls"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func finish(t *testing.T, source string) (*config.Config, error) {
	t.Helper()
	c := config.Defaults()
	if err := c.Merge("a.hcl", []byte("data_dir = \"/x\"\nserver { enabled = true }\n"+source)); err != nil {
		t.Fatal(err)
	}
	return c, c.Finish()
}

func TestCipherSuitesAreThoseOfTheirNames(t *testing.T) {
	c, err := finish(t, `tls { tls_cipher_suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305" }`)
	if err != nil {
		t.Fatal(err)
	}
	want := []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256}
	if got, _ := c.TLS.Suites(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTLSSettingsThatCannotBeKeptAreRefusedWithTheCure(t *testing.T) {
	for source, want := range map[string]string{
		`tls_cipher_suites = "TLS_RSA_WITH_3DES_EDE_CBC_SHA"`:                                        "TLS_RSA_WITH_3DES_EDE_CBC_SHA cannot be used; choose from TLS_ECDHE_ECDSA",
		"tls_cipher_suites = \"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\"\ntls_min_version = \"tls13\"": "no effect",
		`tls_min_version = "tls10"`: "not one of tls12, tls13",
	} {
		if _, err := finish(t, "tls {\n"+source+"\n}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", source, err)
		}
	}
	c, err := finish(t, "tls {\nrpc_upgrade_mode = false\ntls_prefer_server_cipher_suites = true\n}")
	if err != nil || len(c.Warnings) > 0 {
		t.Errorf("%v, %q", err, c.Warnings)
	}
	err = config.Defaults().Merge("a.hcl", []byte("tls { rpc_upgrade_mode = true }"))
	if err == nil || !strings.Contains(err.Error(), "tls.rpc_upgrade_mode cannot be kept") {
		t.Error(err)
	}
}
