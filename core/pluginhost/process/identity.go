// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"sync"
	"time"
)

// clientCertVariable is the environment variable in which go-plugin passes the host's
// certificate to a plugin. A plugin that knows it sends a certificate of its own in the
// handshake and accepts no other client, and the host accepts no other certificate of the
// plugin.
const clientCertVariable = "PLUGIN_CLIENT_CERT"

// serverName is the name in the certificates of go-plugin.
const serverName = "localhost"

// keyPair is the certificate with which the host calls one process, and its key. It is
// made for each process, and stored with its record for the next agent.
type keyPair struct {
	Cert []byte // DER
	Key  []byte // DER, PKCS #8

	mu     sync.Mutex
	server []byte
}

// serverCert is the certificate that the process has shown; nil before it was called.
func (k *keyPair) serverCert() []byte {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.server
}

// note keeps the certificate of a process that has proved to have its key.
func (k *keyPair) note(state tls.ConnectionState) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.server = state.PeerCertificates[0].Raw
	return nil
}

// certLife is far longer than a process lives.
const certLife = 30 * 365 * 24 * time.Hour

func newKeyPair() (*keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the key with which a plugin is called: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make the certificate with which a plugin is called: %w", err)
	}
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: serverName, Organization: []string{"Drover"}}, DNSNames: []string{serverName}, SerialNumber: serial,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(certLife),
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate with which a plugin is called: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode the key with which a plugin is called: %w", err)
	}
	return &keyPair{Cert: cert, Key: der}, nil
}

// variable returns the environment variable for the process: the certificate without its
// key.
func (k *keyPair) variable() string {
	return clientCertVariable + "=" + string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: k.Cert}))
}

// config is the TLS configuration for calls to a process; server is the process's
// certificate, nil until the handshake has told it.
func (k *keyPair) config(server []byte) (*tls.Config, error) {
	key, err := x509.ParsePKCS8PrivateKey(k.Key)
	if err != nil {
		return nil, fmt.Errorf("decode the key with which a plugin is called: %w", err)
	}
	c := &tls.Config{
		Certificates:     []tls.Certificate{{Certificate: [][]byte{k.Cert}, PrivateKey: key}},
		VerifyConnection: k.note, ServerName: serverName, MinVersion: tls.VersionTLS12, CurvePreferences: []tls.CurveID{tls.X25519, tls.CurveP256},
	}
	if server != nil {
		cert, err := x509.ParseCertificate(server)
		if err != nil {
			return nil, fmt.Errorf("decode the certificate of a plugin: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		c.RootCAs.AddCert(cert)
	}
	return c, nil
}
