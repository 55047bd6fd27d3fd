// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/core/rpc"
)

// Authority is a certificate authority for tests.
type Authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority creates an authority. Its files are removed at the end of the test.
func NewAuthority(t *testing.T) *Authority {
	t.Helper()
	a := &Authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes the files NAME.pem and NAME.key.
func (a *Authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	if c.NotBefore.IsZero() {
		c.NotBefore = time.Now().Add(-time.Hour)
	}
	if c.NotAfter.IsZero() {
		c.NotAfter = time.Now().Add(time.Hour)
	}
	parent, signer := a.cert, a.key
	if c.IsCA {
		parent, signer = c, key
	}
	body, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: body}, name + ".key": {Type: "PRIVATE KEY", Bytes: pkcs8}} {
		if err := os.WriteFile(filepath.Join(a.dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.t.Fatal(err)
		}
	}
	out, err := x509.ParseCertificate(body)
	if err != nil {
		a.t.Fatal(err)
	}
	return out, key
}

// Machine returns the TLS files of a machine whose certificate is for a DNS name. It
// replaces the files of an earlier machine with that name.
func (a *Authority) Machine(name, dns string, verify bool) rpc.TLS {
	a.t.Helper()
	return a.machine(name, dns, verify, time.Time{}, time.Time{})
}

// Expired is Machine with a certificate that expired a minute ago.
func (a *Authority) Expired(name, dns string) rpc.TLS {
	a.t.Helper()
	return a.machine(name, dns, true, time.Time{}, time.Now().Add(-time.Minute))
}

// Early is Machine with a certificate that is valid in half an hour.
func (a *Authority) Early(name, dns string) rpc.TLS {
	a.t.Helper()
	return a.machine(name, dns, true, time.Now().Add(time.Hour/2), time.Time{})
}

func (a *Authority) machine(name, dns string, verify bool, from, until time.Time) rpc.TLS {
	a.t.Helper()
	a.sign(name, &x509.Certificate{DNSNames: []string{dns}, NotBefore: from, NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	file := func(f string) string { return filepath.Join(a.dir, f) }
	return rpc.TLS{CAFile: file("ca.pem"), CertFile: file(name + ".pem"), KeyFile: file(name + ".key"), Region: "global", VerifyServerHostname: verify}
}
