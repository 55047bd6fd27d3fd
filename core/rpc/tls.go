// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TLS configures mutual TLS between machines: both sides have a certificate of the
// same authority. The certificate files are read at each handshake, so a renewed
// certificate needs no restart.
type TLS struct {
	CAFile, CertFile, KeyFile string
	// Region is the region of the servers. With VerifyServerHostname, nodes accept
	// only servers with a certificate for server.REGION.nomad; otherwise the owner of
	// any node's certificate could impersonate a server.
	Region               string
	VerifyServerHostname bool
	MinVersion           uint16 // 0 means TLS 1.2
}

// Server returns the configuration of the servers' port.
func (t TLS) Server() (*tls.Config, error) {
	roots, err := t.authority()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: t.minVersion(), ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return t.certificate() },
	}, nil
}

// Client returns the configuration of a node's connection to servers.
func (t TLS) Client() (*tls.Config, error) {
	roots, err := t.authority()
	if err != nil {
		return nil, err
	}
	out := &tls.Config{
		MinVersion: t.minVersion(), RootCAs: roots, ServerName: "server." + t.Region + ".nomad",
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() },
	}
	if !t.VerifyServerHostname {
		// VerifyConnection still verifies the chain, but not the name.
		out.InsecureSkipVerify = true
		out.VerifyConnection = func(state tls.ConnectionState) error { return ofAuthority(state, roots) }
	}
	return out, nil
}

func (t TLS) minVersion() uint16 { return max(t.MinVersion, tls.VersionTLS12) }

// authority reads the certificates of the authority. It also checks that the agent's
// own certificate can be read, so that an agent with wrong files does not start.
func (t TLS) authority() (*x509.CertPool, error) {
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errdefs.InvalidArgumentf("tls.ca_file %s holds no certificate in PEM", t.CAFile)
	}
	_, err = t.certificate()
	return roots, err
}

func (t TLS) certificate() (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.cert_file and tls.key_file: %w", err)
	}
	return &pair, nil
}

// ofAuthority verifies a server's chain without its name.
func ofAuthority(state tls.ConnectionState, roots *x509.CertPool) error {
	if len(state.PeerCertificates) == 0 {
		return errdefs.PermissionDeniedf("the server showed no certificate")
	}
	between := x509.NewCertPool()
	for _, c := range state.PeerCertificates[1:] {
		between.AddCert(c)
	}
	_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	return err
}
