// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/core/certs"
	"github.com/drover-project/drover/core/model"
)

// labels are the roles at the beginning of a sentence.
var labels = map[certs.Role]string{certs.Server: "Server", certs.Client: "Client", certs.CLI: "CLI"}

const (
	authorityDays   = 1825
	certificateDays = 365
)

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

func tlsCACreate() spec {
	return spec{
		usage: "tls ca create [options]", synopsis: "Creates a certificate authority for the mutual TLS of a cluster", offline: true,
		help: "Writes DOMAIN-agent-ca.pem, which every agent gets as tls.ca_file, and DOMAIN-agent-ca-key.pem, which signs\ncertificates: keep it off the machines of the cluster. Existing files are never overwritten.",
		setup: func(fs *flag.FlagSet) run {
			var name pkix.Name
			var country, province, locality, street, postal, organization, unit string
			domain := fs.String("domain", certs.DefaultDomain, "Last part of the names of machines.")
			valid := fs.Int("days", authorityDays, "Days for which the authority is valid.")
			constrained := fs.Bool("name-constraint", false, "Lets the authority sign only for names below -domain, localhost and -additional-domain.")
			more := lists(fs, "additional-domain", "Further domain that -name-constraint allows.")
			fs.StringVar(&name.CommonName, "common-name", "", "Common name of the authority; by default one with its serial number.")
			for flagName, field := range map[string]*string{
				"country": &country, "province": &province, "locality": &locality, "street-address": &street, "postal-code": &postal,
				"organization": &organization, "organizational-unit": &unit,
			} {
				fs.StringVar(field, flagName, "", strings.ToUpper(flagName[:1])+strings.ReplaceAll(flagName[1:], "-", " ")+" in the authority's subject.")
			}
			return func(_ context.Context, s *session, _ []string) error {
				if len(*more) > 0 && !*constrained {
					return errors.New("-additional-domain has no effect without -name-constraint")
				}
				for value, field := range map[*string]*[]string{
					&country: &name.Country, &province: &name.Province, &locality: &name.Locality, &street: &name.StreetAddress,
					&postal: &name.PostalCode, &organization: &name.Organization, &unit: &name.OrganizationalUnit,
				} {
					if *value != "" {
						*field = []string{*value}
					}
				}
				r := certs.AuthorityRequest{Subject: name, For: days(*valid), Now: time.Now()}
				if *constrained {
					r.Domains = append([]string{*domain, "localhost"}, *more...)
				}
				pair, err := certs.NewAuthority(r)
				if err != nil {
					return err
				}
				return s.savePair(*domain+"-agent-ca", "CA certificate", pair)
			}
		},
	}
}

func tlsCertCreate() spec {
	return spec{
		usage: "tls cert create [options] -server|-client|-cli", synopsis: "Creates a certificate for a server, a node or a user of the command line", offline: true,
		help: "Writes REGION-ROLE-DOMAIN.pem and REGION-ROLE-DOMAIN-key.pem. The certificate is for ROLE.REGION.DOMAIN, localhost and\nthe loopback addresses. Existing files are never overwritten.",
		setup: func(fs *flag.FlagSet) run {
			domain := fs.String("domain", certs.DefaultDomain, "Last part of the names of machines.")
			region := fs.String("region", model.DefaultRegion, "Region of the machine.")
			valid := fs.Int("days", certificateDays, "Days for which the certificate is valid.")
			ca := fs.String("ca", "", "File of the authority's certificate; by default DOMAIN-agent-ca.pem.")
			key := fs.String("key", "", "File of the authority's private key; by default DOMAIN-agent-ca-key.pem.")
			roles := map[certs.Role]*bool{
				certs.Server: fs.Bool("server", false, "Creates the certificate of a server."),
				certs.Client: fs.Bool("client", false, "Creates the certificate of a node."),
				certs.CLI:    fs.Bool("cli", false, "Creates the certificate of a user of the command line."),
			}
			names := lists(fs, "additional-dnsname", "Further DNS name of the machine.")
			addresses := lists(fs, "additional-ipaddress", "Further IP address of the machine.")
			return func(_ context.Context, s *session, _ []string) error {
				r := certs.Request{Region: *region, Domain: *domain, Names: *names, For: days(*valid), Now: time.Now()}
				for role, chosen := range roles {
					if *chosen && r.Role != "" {
						return errors.New("give only one of -server, -client and -cli: a certificate has one role")
					}
					if *chosen {
						r.Role = role
					}
				}
				if r.Role == "" {
					return errors.New("name the use of the certificate: -server, -client or -cli")
				}
				for _, a := range *addresses {
					ip := net.ParseIP(a)
					if ip == nil {
						return fmt.Errorf("-additional-ipaddress: %q is not an IP address", a)
					}
					r.Addresses = append(r.Addresses, ip)
				}
				authority, err := readAuthority(*domain, *ca, *key)
				if err != nil {
					return err
				}
				pair, err := certs.Sign(*authority, r)
				if err != nil {
					return err
				}
				if r.Role == certs.Server {
					fmt.Fprintln(s.Err, "Whoever has this certificate can act as a server, and is given the whole state of the cluster: put it on servers only.")
				}
				return s.savePair(*region+"-"+string(r.Role)+"-"+*domain, labels[r.Role]+" certificate", pair)
			}
		},
	}
}

func readAuthority(domain, ca, key string) (*certs.Pair, error) {
	if ca == "" {
		ca = domain + "-agent-ca.pem"
	}
	if key == "" {
		key = domain + "-agent-ca-key.pem"
	}
	var out certs.Pair
	var err error
	if out.Certificate, err = os.ReadFile(ca); err == nil {
		out.Key, err = os.ReadFile(key)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the authority cannot be read; make one with drover tls ca create, or name its files with -ca and -key: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	return &out, nil
}

// savePair writes NAME.pem and NAME-key.pem into the working directory. It writes none if
// one of them exists.
func (s *session) savePair(name, what string, pair *certs.Pair) error {
	key, certificate := name+"-key.pem", name+".pem"
	if err := saveNew(key, pair.Key, 0o600); err != nil {
		return err
	}
	if err := saveNew(certificate, pair.Certificate, 0o644); err != nil {
		return errors.Join(err, os.Remove(key))
	}
	s.printf("==> %s saved to: %s", what, certificate)
	s.printf("==> %s key saved to: %s", what, key)
	return nil
}

func saveNew(path string, text []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten: move it away, or work in another directory", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// tlsInfo are the commands that describe a certificate.
func tlsInfo(usage, synopsis string, authority bool) func() spec {
	return func() spec {
		return spec{
			usage: usage, synopsis: synopsis, min: 1, max: 1, offline: true, output: true, takes: takesFiles,
			setup: func(*flag.FlagSet) run {
				return func(_ context.Context, s *session, args []string) error {
					text, err := os.ReadFile(args[0])
					if err != nil {
						return fmt.Errorf("read the certificate: %w", err)
					}
					list, err := certs.Parse(text)
					if err != nil {
						return fmt.Errorf("%s: %w", args[0], err)
					}
					var out []certs.Description
					for _, c := range list {
						out = append(out, certs.Describe(c, time.Now()))
					}
					if out[0].Authority != authority {
						other := "tls cert info"
						if out[0].Authority {
							other = "tls ca info"
						}
						return fmt.Errorf("%s is a certificate of another kind; see: drover %s %s", args[0], other, args[0])
					}
					return s.show(out, nil, func() {
						for i, d := range out {
							if i > 0 {
								s.printf("")
							}
							s.describeCertificate(d)
						}
					})
				}
			},
		}
	}
}

func (s *session) describeCertificate(d certs.Description) {
	end := d.NotAfter.Format(time.RFC3339)
	if d.Expired {
		end += " (expired)"
	}
	pairs := []string{"Common Name", d.CommonName, "Issuer", d.Issuer, "Serial Number", d.Serial, "Not Before", d.NotBefore.Format(time.RFC3339), "Not After", end}
	for _, row := range []struct {
		name string
		list []string
	}{{"DNS Names", d.DNSNames}, {"IP Addresses", d.IPAddresses}, {"Permitted DNS Domains", d.PermittedDNSDomains}, {"Usage", d.Usage}} {
		if len(row.list) > 0 {
			pairs = append(pairs, row.name, strings.Join(row.list, ", "))
		}
	}
	s.pairs(append(pairs, "SHA-256", d.Fingerprint)...)
}
