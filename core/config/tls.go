// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"crypto/tls"
	"fmt"
	"slices"
)

// TLS configures mutual TLS between machines (RPC) and for the HTTP API.
type TLS struct {
	HTTP                 bool   `json:"http,omitempty"`
	RPC                  bool   `json:"rpc,omitempty"`
	VerifyServerHostname bool   `json:"verify_server_hostname,omitempty"`
	VerifyHTTPSClient    bool   `json:"verify_https_client,omitempty"`
	CAFile               string `json:"ca_file,omitempty"`
	CertFile             string `json:"cert_file,omitempty"`
	KeyFile              string `json:"key_file,omitempty"`
	MinVersion           string `json:"tls_min_version,omitempty"`
}

var tlsVersions = map[string]uint16{"": tls.VersionTLS12, "tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13}

// Version returns the lowest accepted TLS version.
func (t *TLS) Version() uint16 { return tlsVersions[t.MinVersion] }

func (t *TLS) problems() []string {
	var out []string
	if t.HTTP || t.RPC {
		for key, file := range map[string]string{"ca_file": t.CAFile, "cert_file": t.CertFile, "key_file": t.KeyFile} {
			if file == "" {
				out = append(out, fmt.Sprintf("tls.%s is missing: TLS needs ca_file, cert_file and key_file", key))
			}
		}
	}
	if _, ok := tlsVersions[t.MinVersion]; !ok {
		out = append(out, fmt.Sprintf("tls.tls_min_version %q is not one of tls12, tls13", t.MinVersion))
	}
	slices.Sort(out)
	return out
}
