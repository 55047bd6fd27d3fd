// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package certs_test

import (
	"crypto/x509"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/certs"
)

const day = 24 * time.Hour

func authority(t *testing.T, now time.Time, domains ...string) *certs.Pair {
	t.Helper()
	a, err := certs.NewAuthority(certs.AuthorityRequest{Domains: domains, For: 100 * day, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func request(role certs.Role, now time.Time) certs.Request {
	return certs.Request{Role: role, Region: "global", Domain: certs.DefaultDomain, For: 10 * day, Now: now}
}

func only(t *testing.T, p *certs.Pair) *x509.Certificate {
	t.Helper()
	list, err := certs.Parse(p.Certificate)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d certificates, %v", len(list), err)
	}
	return list[0]
}

func TestACertificateIsForItsRole(t *testing.T) {
	now := time.Now()
	a := authority(t, now)
	roots := x509.NewCertPool()
	roots.AddCert(only(t, a))
	for role, serves := range map[certs.Role]bool{certs.Server: true, certs.Client: true, certs.CLI: false} {
		r := request(role, now)
		r.Names, r.Addresses = []string{"x.example.com", "localhost"}, []net.IP{net.ParseIP("10.0.0.1")}
		p, err := certs.Sign(*a, r)
		if err != nil {
			t.Fatal(err)
		}
		c := only(t, p)
		for usage, want := range map[x509.ExtKeyUsage]bool{x509.ExtKeyUsageClientAuth: true, x509.ExtKeyUsageServerAuth: serves} {
			_, err := c.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}})
			if got := err == nil; got != want {
				t.Errorf("%s for %v: %v", role, usage, err)
			}
		}
		for _, name := range []string{string(role) + ".global.nomad", "localhost", "127.0.0.1", "::1", "x.example.com", "10.0.0.1"} {
			if err := c.VerifyHostname(name); err != nil {
				t.Errorf("%s: %v", role, err)
			}
		}
		if len(c.DNSNames) != 3 {
			t.Errorf("%s: a name stands twice: %q", role, c.DNSNames)
		}
		if role != certs.Server && c.VerifyHostname("server.global.nomad") == nil {
			t.Errorf("the certificate of a %s is for a server", role)
		}
	}
}

func TestAnAuthoritySignsOnlyWhatMachinesAccept(t *testing.T) {
	now := time.Now()
	a, other := authority(t, now), authority(t, now)
	leaf, err := certs.Sign(*a, request(certs.Server, now))
	if err != nil {
		t.Fatal(err)
	}
	long := request(certs.Server, now)
	long.For = 101 * day
	foreign := request(certs.Client, now)
	foreign.Names = []string{"example.com"}
	for name, c := range map[string]struct {
		by   certs.Pair
		r    certs.Request
		want string
	}{
		"a certificate that outlives its authority":  {*a, long, "before the new certificate"},
		"an authority that is none":                  {*leaf, request(certs.Client, now), "does not belong to an authority"},
		"the key of another authority":               {certs.Pair{Certificate: a.Certificate, Key: other.Key}, request(certs.Client, now), "does not belong to the certificate"},
		"no key":                                     {certs.Pair{Certificate: a.Certificate}, request(certs.Client, now), "no private key"},
		"no certificate":                             {certs.Pair{Key: a.Key}, request(certs.Client, now), "no certificate"},
		"a name that the authority may not sign for": {*authority(t, now, "nomad", "localhost"), foreign, "cannot sign"},
		"no time at all":                             {*a, certs.Request{Role: certs.CLI, Region: "global", Domain: "nomad", Now: now}, "at least a day"},
	} {
		if _, err := certs.Sign(c.by, c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := certs.Sign(*authority(t, now, "nomad", "localhost"), request(certs.Server, now)); err != nil {
		t.Errorf("within the constraints: %v", err)
	}
}

func TestADescriptionSaysWhatACertificateIsFor(t *testing.T) {
	now := time.Now()
	a := authority(t, now)
	p, err := certs.Sign(*a, request(certs.CLI, now))
	if err != nil {
		t.Fatal(err)
	}
	d := certs.Describe(only(t, p), now.Add(11*day))
	if !d.Expired || d.Authority || d.CommonName != "cli.global.nomad" || !slices.Equal(d.Usage, []string{"TLS client"}) || !slices.Contains(d.IPAddresses, "127.0.0.1") {
		t.Errorf("%+v", d)
	}
	if d := certs.Describe(only(t, a), now); !d.Authority || d.Expired || d.Issuer != d.CommonName {
		t.Errorf("%+v", d)
	}
}
