// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// CipherSuites are names of TLS 1.2 cipher suites, separated by commas.
	CipherSuites string `json:"tls_cipher_suites,omitempty"`
}

var tlsVersions = map[string]uint16{"": tls.VersionTLS12, "tls12": tls.VersionTLS12, "tls13": tls.VersionTLS13}

// cipherSuites returns the suites that can be chosen, by name. They are the suites of TLS
// 1.2 that HTTP/2 allows; TLS 1.3 has its own, among which nobody can choose.
func cipherSuites() map[string]uint16 {
	out := map[string]uint16{}
	for _, s := range tls.CipherSuites() {
		if !slices.Contains(s.SupportedVersions, tls.VersionTLS12) || strings.Contains(s.Name, "_CBC_") {
			continue
		}
		out[s.Name] = s.ID
		if short, ok := strings.CutSuffix(s.Name, "_POLY1305_SHA256"); ok {
			out[short+"_POLY1305"] = s.ID // its name in the documents of the reference
		}
	}
	return out
}

// Suites returns the cipher suites of TLS 1.2; nil means the usual ones.
func (t *TLS) Suites() (ids []uint16, unknown []string) {
	known := cipherSuites()
	for name := range strings.SplitSeq(t.CipherSuites, ",") {
		name = strings.TrimSpace(name)
		if id, ok := known[name]; ok {
			ids = append(ids, id)
		} else if name != "" {
			unknown = append(unknown, name)
		}
	}
	return ids, unknown
}

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
	if _, unknown := t.Suites(); len(unknown) > 0 {
		out = append(out, fmt.Sprintf("tls.tls_cipher_suites: %s cannot be used; choose from %s", strings.Join(unknown, ", "), strings.Join(slices.Sorted(maps.Keys(cipherSuites())), ", ")))
	}
	if t.CipherSuites != "" && t.MinVersion == "tls13" {
		out = append(out, `tls.tls_cipher_suites has no effect with tls_min_version = "tls13", because TLS 1.3 has cipher suites of its own: remove one of them`)
	}
	slices.Sort(out)
	return out
}

// warnings names the keys that say how TLS is spoken where it is not spoken at all.
func (t *TLS) warnings() (out []string) {
	if files := t.CAFile + t.CertFile + t.KeyFile; files != "" && !t.HTTP && !t.RPC {
		out = append(out, "tls.ca_file, cert_file and key_file do nothing without tls.http or tls.rpc: no port speaks TLS")
	}
	if t.VerifyHTTPSClient && !t.HTTP {
		out = append(out, "tls.verify_https_client does nothing without tls.http: the HTTP API takes everyone")
	}
	if t.VerifyServerHostname && !t.RPC {
		out = append(out, "tls.verify_server_hostname does nothing without tls.rpc: servers and nodes speak without TLS")
	}
	return out
}
