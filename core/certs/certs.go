// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package certs makes and describes the certificates of a cluster's mutual TLS: the
// certificate of an authority, and the certificates of servers, nodes and users of the
// command line, which the authority signs. Private keys are ECDSA keys on P-256. cmd/drover
// imports it.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultDomain is the last part of the names of machines, as in the reference, whose names
// the agents verify.
const DefaultDomain = "nomad"

// clockSkew is the time before its creation from which a certificate is valid, for machines
// whose clocks are behind.
const clockSkew = time.Minute

// Role is the permitted use of a certificate.
type Role string

// The roles.
const (
	Server Role = "server" // of a server: other machines trust it in all matters of the cluster
	Client Role = "client" // a node
	CLI    Role = "cli"    // a user of the HTTP API
)

// Pair is a certificate and its private key, both in PEM.
type Pair struct {
	Certificate, Key []byte
}

// AuthorityRequest describes the certificate of an authority.
type AuthorityRequest struct {
	Subject pkix.Name // without a CommonName one is made from the serial number
	// Domains, if there are any, are the only ones for whose names the authority may
	// sign.
	Domains []string
	For     time.Duration
	Now     time.Time
}

// NewAuthority makes an authority.
func NewAuthority(r AuthorityRequest) (*Pair, error) {
	if r.For <= 0 {
		return nil, errdefs.InvalidArgumentf("a certificate must be valid for at least a day")
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	if r.Subject.CommonName == "" {
		r.Subject.CommonName = fmt.Sprintf("Drover Agent CA %s", serial)
	}
	key, der, err := newKey()
	if err != nil {
		return nil, err
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: r.Subject, NotBefore: r.Now.Add(-clockSkew), NotAfter: r.Now.Add(r.For),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		SubjectKeyId: keyID(key),
	}
	c.AuthorityKeyId = c.SubjectKeyId
	if len(r.Domains) > 0 {
		c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, r.Domains
	}
	body, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the authority: %w", err)
	}
	return &Pair{encode("CERTIFICATE", body), encode("EC PRIVATE KEY", der)}, nil
}

// Request describes the certificate of a machine or a user.
type Request struct {
	Role           Role
	Region, Domain string
	Names          []string // further DNS names
	Addresses      []net.IP // further addresses
	For            time.Duration
	Now            time.Time
}

// Name is the name of the role in the cluster, such as "server.global.nomad".
func (r Request) Name() string { return string(r.Role) + "." + r.Region + "." + r.Domain }

// Sign makes a certificate that an authority signs.
func Sign(authority Pair, r Request) (*Pair, error) {
	issuer, signer, err := authority.parse()
	if err != nil {
		return nil, err
	}
	until := r.Now.Add(r.For)
	switch {
	case !issuer.IsCA:
		return nil, errdefs.InvalidArgumentf("the certificate %q does not belong to an authority; give the one that `drover tls ca create` has made", issuer.Subject.CommonName)
	case r.For <= 0:
		return nil, errdefs.InvalidArgumentf("a certificate must be valid for at least a day")
	case until.After(issuer.NotAfter):
		return nil, errdefs.InvalidArgumentf("the authority ends on %s, before the new certificate; give fewer -days, or make a new authority and trust both for a while", issuer.NotAfter.UTC().Format(time.DateOnly))
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	key, der, err := newKey()
	if err != nil {
		return nil, err
	}
	// The agents of nodes serve the HTTP API, as servers do.
	usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if r.Role != CLI {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	c := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: r.Name()}, NotBefore: r.Now.Add(-clockSkew), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: usage, BasicConstraintsValid: true,
		DNSNames:    unique(append([]string{r.Name(), "localhost"}, r.Names...)),
		IPAddresses: append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, r.Addresses...), SubjectKeyId: keyID(key), AuthorityKeyId: issuer.SubjectKeyId,
	}
	body, err := x509.CreateCertificate(rand.Reader, c, issuer, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("make the certificate: %w", err)
	}
	out := &Pair{encode("CERTIFICATE", body), encode("EC PRIVATE KEY", der)}
	return out, out.accepted(issuer)
}

// accepted returns an error if machines would not accept the certificate, for example
// because the authority may not sign for one of its names.
func (p *Pair) accepted(issuer *x509.Certificate) error {
	made, err := Parse(p.Certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AddCert(issuer)
	if _, err := made[0].Verify(x509.VerifyOptions{Roots: roots, CurrentTime: made[0].NotBefore.Add(clockSkew), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return errdefs.InvalidArgumentf("the authority cannot sign this certificate: %w", err)
	}
	return nil
}

func unique(names []string) (out []string) {
	for _, n := range names {
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// Parse returns the certificates of a text in PEM.
func Parse(text []byte) ([]*x509.Certificate, error) {
	var out []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, errdefs.InvalidArgumentf("read a certificate: %w", err)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errdefs.InvalidArgumentf("there is no certificate in PEM in it")
	}
	return out, nil
}

// parse returns the certificate of a pair and its private key.
func (p Pair) parse() (*x509.Certificate, crypto.Signer, error) {
	certificates, err := Parse(p.Certificate)
	if err != nil {
		return nil, nil, err
	}
	signer, err := parseKey(p.Key)
	if err != nil {
		return nil, nil, err
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !public.Equal(certificates[0].PublicKey) {
		return nil, nil, errdefs.InvalidArgumentf("the key does not belong to the certificate of %q", certificates[0].Subject.CommonName)
	}
	return certificates[0], signer, nil
}

func parseKey(text []byte) (crypto.Signer, error) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return nil, errdefs.InvalidArgumentf("there is no private key in PEM in it")
		}
		var key any
		var err error
		switch block.Type {
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		default:
			continue // such as EC PARAMETERS
		}
		if err != nil {
			return nil, errdefs.InvalidArgumentf("read the private key: %w", err)
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, errdefs.InvalidArgumentf("the private key cannot sign")
	}
}

// newSerial returns a random number that no other certificate of the authority has.
func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("read random bytes of the operating system: %w", err)
	}
	return serial, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a private key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("encode a private key: %w", err)
	}
	return key, der, nil
}

// keyID identifies a key in the certificates that it signs.
func keyID(key *ecdsa.PrivateKey) []byte {
	text, err := key.PublicKey.Bytes()
	if err != nil {
		return nil // it is on the curve: newKey has made it
	}
	sum := sha256.Sum256(text)
	return sum[:20]
}

func encode(kind string, body []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: body})
}
