// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/errdefs"
)

// TLS configures mutual TLS between machines: both sides have a certificate of the
// same authority.
type TLS struct {
	CAFile, CertFile, KeyFile string
	// Region is the region of the servers. With VerifyServerHostname, a machine acts as
	// a server, for nodes and for other servers, only with a certificate for
	// server.REGION.nomad or server.REGION.drover; otherwise the owner of any node's
	// certificate could impersonate a server.
	Region               string
	VerifyServerHostname bool
	// Server says that this machine is a server. With VerifyServerHostname its own
	// certificate must be one of a server, because no other machine accepts it otherwise.
	Server bool
	// VerifyClients requires a certificate of the clients of HTTP.
	VerifyClients bool
	MinVersion    uint16 // 0 means TLS 1.2
	// CipherSuites are the suites of TLS 1.2; nil means Go's defaults. TLS 1.3 has its own.
	CipherSuites []uint16
}

// expiresSoon is how long before its end the log says that a certificate ends.
const expiresSoon = 14 * 24 * time.Hour

// Credentials are the certificates of a machine. The files are read again when one of
// them has changed: each handshake compares their times and sizes. Files that cannot be
// used together, for example because only one of them has been replaced so far, change
// nothing: the certificates that were read before stay in use until the files are right.
type Credentials struct {
	log hclog.Logger

	mu  sync.Mutex
	now *certificates
	bad [3]stamp // stamps of files that could not be used
}

// certificates are the contents of the files at one time.
type certificates struct {
	TLS
	stamps [3]stamp
	own    *tls.Certificate
	roots  *x509.CertPool
}

// stamp reports whether a file has changed.
type stamp struct {
	changed time.Time
	size    int64
}

// Open reads the files. It fails if they cannot be used, so that an agent with wrong
// files does not start.
func (t TLS) Open(log hclog.Logger) (*Credentials, error) {
	c := &Credentials{log: log}
	return c, c.Reload(t)
}

// Reload reads the files, whose paths may have changed. After an error the certificates
// that were read before stay in use.
func (c *Credentials) Reload(t TLS) error {
	next, err := t.read(t.stamps())
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.take(next)
	return nil
}

func (c *Credentials) take(next *certificates) {
	c.now, c.bad = next, [3]stamp{}
	leaf := next.own.Leaf
	if err := next.recognised(); err != nil {
		c.log.Warn("the certificate of this agent is of no authority in ca_file: machines with this ca_file do not accept it", "file", next.CertFile, "error", err)
	}
	left := time.Until(leaf.NotAfter)
	switch now := time.Now(); {
	case now.Before(leaf.NotBefore):
		c.log.Error("the certificate of this agent is not valid yet: no other machine accepts it; correct this machine's clock, or, if it is right, make a new one with: drover tls cert create",
			"file", next.CertFile, "valid_from", leaf.NotBefore.UTC(), "clock", now.UTC().Truncate(time.Second))
	case left <= 0:
		c.log.Error("the certificate of this agent has expired: no other machine accepts it; make a new one with: drover tls cert create", "file", next.CertFile, "expired", leaf.NotAfter.UTC())
	case left < expiresSoon:
		c.log.Warn("the certificate of this agent expires soon; make a new one with: drover tls cert create", "file", next.CertFile, "expires", leaf.NotAfter.UTC())
	}
}

// current returns the certificates, after reading the files again if they have changed.
func (c *Credentials) current() *certificates {
	c.mu.Lock()
	defer c.mu.Unlock()
	stamps := c.now.TLS.stamps()
	if stamps == c.now.stamps || stamps == c.bad {
		return c.now
	}
	next, err := c.now.TLS.read(stamps)
	if err != nil {
		c.bad = stamps
		c.log.Warn("the TLS files have changed and cannot be used now; the certificates that were read before stay in use", "error", err)
		return c.now
	}
	c.take(next)
	c.log.Info("the TLS files have changed and were read again", "expires", next.own.Leaf.NotAfter.UTC())
	return c.now
}

// Server returns the configuration of the servers' port.
func (c *Credentials) Server(protocols ...string) *tls.Config {
	return c.listening(func(now *certificates, config *tls.Config) {
		config.NextProtos = protocols
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.roots
	})
}

// HTTP returns the configuration of the port of the HTTP API.
func (c *Credentials) HTTP() *tls.Config {
	return c.listening(func(now *certificates, config *tls.Config) {
		config.NextProtos = []string{"http/1.1"} // WebSocket needs HTTP/1.1
		if now.VerifyClients {
			config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, now.roots
		}
	})
}

// listening returns a TLS configuration that reads the current certificates at each
// handshake. Sessions are not resumed, because that would accept a machine whose authority
// is no longer trusted.
func (c *Credentials) listening(complete func(*certificates, *tls.Config)) *tls.Config {
	fresh := func() *tls.Config {
		now := c.current()
		config := &tls.Config{
			MinVersion: now.minVersion(), CipherSuites: now.CipherSuites, Certificates: []tls.Certificate{*now.own}, SessionTicketsDisabled: true,
		}
		complete(now, config)
		return config
	}
	config := fresh()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return fresh(), nil }
	return config
}

// Client returns the configuration of a connection to servers.
func (c *Credentials) Client() *tls.Config {
	now := c.current()
	return &tls.Config{
		MinVersion: now.minVersion(), CipherSuites: now.CipherSuites, ServerName: now.serverNames()[0],
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c.current().own, nil },
		// VerifyConnection verifies the chain, and either of two names.
		InsecureSkipVerify: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			now := c.current()
			if state.Version < now.minVersion() { // it was raised after this configuration was made
				return errdefs.PermissionDeniedf("the server speaks %s, and tls_min_version is %s", tls.VersionName(state.Version), tls.VersionName(now.minVersion()))
			}
			if err := ofAuthority(state, now.roots); err != nil {
				return err
			}
			return now.ofServer(state)
		},
	}
}

// ofServer returns an error if the other side of a connection has no certificate of a
// server and needs one. The handshake has verified its chain.
func (c *Credentials) ofServer(state tls.ConnectionState) error { return c.current().ofServer(state) }

// serverNames are the names of which a server's certificate must have one.
func (t TLS) serverNames() []string {
	return []string{"server." + t.Region + ".nomad", "server." + t.Region + ".drover"}
}

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

// stamps returns the stamps of the three files; a file that is missing has none.
func (t TLS) stamps() (out [3]stamp) {
	for i, file := range []string{t.CAFile, t.CertFile, t.KeyFile} {
		if info, err := os.Stat(file); err == nil {
			out[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return out
}

// read reads the files, whose stamps were taken before.
func (t TLS) read(stamps [3]stamp) (*certificates, error) {
	text, err := os.ReadFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, errdefs.InvalidArgumentf("tls.ca_file %s holds no certificate in PEM", t.CAFile)
	}
	pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read tls.cert_file and tls.key_file: %w", err)
	}
	if t.Server {
		if err := t.ofServer(tls.ConnectionState{PeerCertificates: []*x509.Certificate{pair.Leaf}}); err != nil {
			return nil, errdefs.FailedPreconditionf("tls.cert_file %s cannot be used on a server: no other machine would accept it. Make one with `drover tls cert create -server`: %w", t.CertFile, err)
		}
	}
	return &certificates{TLS: t, stamps: stamps, own: &pair, roots: roots}, nil
}

// recognised returns an error if this machine would not accept its own certificate. That
// it has expired, or is not valid yet, is said elsewhere.
func (c *certificates) recognised() error {
	between := x509.NewCertPool()
	for _, raw := range c.own.Certificate[1:] {
		if more, err := x509.ParseCertificate(raw); err == nil {
			between.AddCert(more)
		}
	}
	at := time.Now()
	if at.Before(c.own.Leaf.NotBefore) {
		at = c.own.Leaf.NotBefore
	} else if at.After(c.own.Leaf.NotAfter) {
		at = c.own.Leaf.NotAfter
	}
	_, err := c.own.Leaf.Verify(x509.VerifyOptions{
		Roots: c.roots, Intermediates: between, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
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
