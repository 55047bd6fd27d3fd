// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package certs

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"time"
)

// Description describes a certificate for people.
type Description struct {
	CommonName, Issuer, Serial string
	NotBefore, NotAfter        time.Time
	Authority                  bool // it may sign others
	DNSNames, IPAddresses      []string
	PermittedDNSDomains        []string // domains for which an authority may sign
	Usage                      []string
	Fingerprint                string // SHA-256 of the certificate
	Expired                    bool
}

var usages = map[x509.ExtKeyUsage]string{
	x509.ExtKeyUsageServerAuth: "TLS server", x509.ExtKeyUsageClientAuth: "TLS client", x509.ExtKeyUsageAny: "any",
}

// Describe describes a certificate at a time.
func Describe(c *x509.Certificate, now time.Time) Description {
	sum := sha256.Sum256(c.Raw)
	out := Description{
		CommonName: c.Subject.CommonName, Issuer: c.Issuer.CommonName, Serial: c.SerialNumber.String(),
		NotBefore: c.NotBefore.UTC(), NotAfter: c.NotAfter.UTC(), Authority: c.IsCA, DNSNames: c.DNSNames,
		PermittedDNSDomains: c.PermittedDNSDomains, Fingerprint: hex.EncodeToString(sum[:]), Expired: now.After(c.NotAfter),
	}
	for _, ip := range c.IPAddresses {
		out.IPAddresses = append(out.IPAddresses, ip.String())
	}
	for _, u := range c.ExtKeyUsage {
		if name, ok := usages[u]; ok {
			out.Usage = append(out.Usage, name)
		}
	}
	return out
}
