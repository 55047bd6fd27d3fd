// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// authority signs certificates for a test.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.cert, a.key = a.sign("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign writes NAME.pem and NAME.key.
func (a *authority) sign(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
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

// machine is the TLS of a machine whose certificate has a DNS name.
func (a *authority) machine(name, dns string, verify bool) rpc.TLS {
	a.t.Helper()
	a.sign(name, &x509.Certificate{DNSNames: []string{dns}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}})
	file := func(f string) string { return filepath.Join(a.dir, f) }
	return rpc.TLS{CAFile: file("ca.pem"), CertFile: file(name + ".pem"), KeyFile: file(name + ".key"), Region: "global", VerifyServerHostname: verify}
}

// serveTLS serves a fake with a machine's TLS and returns its address.
func serveTLS(t *testing.T, m rpc.TLS) (*fake, string) {
	t.Helper()
	config, err := m.Server()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fake{}
	server := rpc.NewServer(f, config)
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return f, l.Addr().String()
}

func TestMachinesOfOneAuthorityTalkAndNobodyElseDoes(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	server := ours.machine("server", "server.global.nomad", true)
	f, address := serveTLS(t, server)
	_, impostor := serveTLS(t, ours.machine("impostor", "client.global.nomad", true))
	node := ours.machine("node", "client.global.nomad", true)
	lax := node
	lax.VerifyServerHostname = false
	stranger := theirs.machine("stranger", "client.global.nomad", false)
	believer := stranger // trusts us, but its own certificate is of its own authority
	believer.CAFile = node.CAFile
	for name, c := range map[string]struct {
		machine *rpc.TLS
		address string
		works   bool
	}{
		"a node":                                {&node, address, true},
		"a node that does not verify names":     {&lax, address, true},
		"a node meets a node that plays server": {&node, impostor, false},
		"the same without verification":         {&lax, impostor, true},
		"a certificate of another authority":    {&stranger, address, false},
		"it even where it trusts the server":    {&believer, address, false},
		"no TLS at all":                         {nil, address, false},
	} {
		t.Run(name, func(t *testing.T) {
			var client *rpc.Client
			var err error
			if c.machine == nil {
				client, err = rpc.Dial(c.address, nil)
			} else {
				config, configErr := c.machine.Client()
				if configErr != nil {
					t.Fatal(configErr)
				}
				client, err = rpc.Dial(c.address, config)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			_, err = client.Register(t.Context(), &model.Node{ID: "n"})
			if works := err == nil; works != c.works || !works && !errdefs.IsUnavailable(err) {
				t.Errorf("registering: %v", err)
			}
		})
	}
	if f.node == nil {
		t.Error("nobody got through")
	}
}

func TestARenewedCertificateNeedsNoRestartAndWrongFilesAreNamed(t *testing.T) {
	a := newAuthority(t)
	server := a.machine("server", "other.name", true)
	_, address := serveTLS(t, server)
	node := a.machine("node", "client.global.nomad", true)
	register := func() error {
		config, err := node.Client()
		if err != nil {
			t.Fatal(err)
		}
		client, err := rpc.Dial(address, config)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		_, err = client.Register(t.Context(), &model.Node{ID: "n"})
		return err
	}
	if err := register(); err == nil {
		t.Fatal("a server of another name is believed")
	}
	a.machine("server", "server.global.nomad", true) // over the old files
	if err := register(); err != nil {
		t.Fatalf("after the renewal: %v", err)
	}
	for name, m := range map[string]rpc.TLS{
		"no authority":       {CAFile: "/none", CertFile: node.CertFile, KeyFile: node.KeyFile},
		"no certificate":     {CAFile: node.CAFile, CertFile: "/none", KeyFile: node.KeyFile},
		"a key of another":   {CAFile: node.CAFile, CertFile: node.CertFile, KeyFile: server.KeyFile},
		"a key as authority": {CAFile: node.KeyFile, CertFile: node.CertFile, KeyFile: node.KeyFile},
	} {
		if _, err := m.Server(); err == nil {
			t.Errorf("%s is taken by a server", name)
		}
		if _, err := m.Client(); err == nil {
			t.Errorf("%s is taken by a node", name)
		}
	}
}
