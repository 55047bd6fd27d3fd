// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TLS configures mutual TLS between machines: both sides have a certificate of the
// same authority. The certificate files are read at each handshake, so a renewed
// certificate needs no restart.
type TLS struct {
	CAFile, CertFile, KeyFile string
	// Region is the region of the servers. With VerifyServerHostname, a machine acts as
	// a server, for nodes and for other servers, only with a certificate for
	// server.REGION.nomad or server.REGION.drover; otherwise the owner of any node's
	// certificate could impersonate a server.
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

// Client returns the configuration of a connection to servers.
func (t TLS) Client() (*tls.Config, error) {
	roots, err := t.authority()
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: t.minVersion(), RootCAs: roots, ServerName: t.serverNames()[0],
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return t.certificate() },
		// VerifyConnection verifies the chain, and either of two names.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			if err := ofAuthority(state, roots); err != nil {
				return err
			}
			return t.ofServer(state)
		},
	}, nil
}

// serverNames are the names of which a server's certificate must have one.
func (t TLS) serverNames() []string {
	return []string{"server." + t.Region + ".nomad", "server." + t.Region + ".drover"}
}

// ofServer returns an error if the other side of a connection has no certificate of a
// server and needs one. The handshake has verified its chain.
func (t TLS) ofServer(state tls.ConnectionState) error {
	if !t.VerifyServerHostname {
		return nil
	}
	if len(state.PeerCertificates) == 0 {
		return errdefs.PermissionDeniedf("the other side showed no certificate")
	}
	leaf := state.PeerCertificates[0]
	for _, name := range t.serverNames() {
		if leaf.VerifyHostname(name) == nil {
			return nil
		}
	}
	return errdefs.PermissionDeniedf("the certificate of %q is not for %s: this machine may not act as a server; give servers a certificate with that name", leaf.Subject.CommonName, strings.Join(t.serverNames(), " or "))
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
