// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/api/client"
)

// common holds the flags that all commands share.
type common struct {
	cfg                 client.Config
	noColor, forceColor bool
	verbose             bool
	json                bool
	template            string
}

// generalFlags are the flags of every command. Help lists them at its end.
var generalFlags = map[string]bool{"address": true, "token": true, "region": true, "namespace": true, "ca-cert": true, "ca-path": true,
	"client-cert": true, "client-key": true, "tls-server-name": true, "tls-skip-verify": true, "no-color": true, "force-color": true, "verbose": true}

// isGeneral reports whether a flag is one of those that all commands like this one have. A
// command that talks to no agent may use such a name for a flag of its own.
func (sp spec) isGeneral(name string) bool {
	return generalFlags[name] && (!sp.offline || strings.HasSuffix(name, "-color"))
}

func (c *common) declare(fs *flag.FlagSet, sp spec, env map[string]string) {
	fs.BoolVar(&c.noColor, "no-color", false, "Disables colours. NO_COLOR and DROVER_CLI_NO_COLOR do the same.")
	fs.BoolVar(&c.forceColor, "force-color", false, "Uses colours even if the output is not a terminal. DROVER_CLI_FORCE_COLOR does the same.")
	if sp.output {
		fs.BoolVar(&c.json, "json", false, "Prints the answer as JSON.")
	}
	if sp.output || sp.template {
		fs.StringVar(&c.template, "t", "", "Formats the answer with a Go template.")
	}
	if sp.offline {
		return
	}
	c.cfg = client.FromEnv(func(name string) string { return env[name] })
	text := func(p *string, name, usage, variable string) {
		if variable != "" {
			usage += " DROVER_" + variable + " or NOMAD_" + variable + " by default."
		}
		fs.StringVar(p, name, *p, usage)
	}
	text(&c.cfg.Address, "address", "Address of the agent: http://HOST:PORT, https://HOST:PORT or unix:///PATH. DROVER_ADDR or NOMAD_ADDR by default, else "+client.DefaultAddress+".", "")
	text(&c.cfg.Token, "token", "Secret ID of the ACL token.", "TOKEN")
	text(&c.cfg.Region, "region", "Region to query.", "REGION")
	text(&c.cfg.Namespace, "namespace", "Namespace of the objects; * means all namespaces.", "NAMESPACE")
	text(&c.cfg.CACert, "ca-cert", "PEM file of CA certificates to trust.", "CACERT")
	text(&c.cfg.CAPath, "ca-path", "Directory of PEM files of CA certificates to trust.", "CAPATH")
	text(&c.cfg.ClientCert, "client-cert", "PEM file of the client certificate.", "CLIENT_CERT")
	text(&c.cfg.ClientKey, "client-key", "PEM file of the client certificate's private key.", "CLIENT_KEY")
	text(&c.cfg.TLSServerName, "tls-server-name", "Server name that the agent's certificate must contain.", "TLS_SERVER_NAME")
	fs.BoolVar(&c.cfg.SkipVerify, "tls-skip-verify", c.cfg.SkipVerify, "Does not verify the agent's certificate. DROVER_SKIP_VERIFY or NOMAD_SKIP_VERIFY by default.")
	fs.BoolVar(&c.verbose, "verbose", false, "Shows full ids and more details.")
}

// stringList is a flag that may be given several times.
type stringList []string

func (l *stringList) String() string     { return strings.Join(*l, ",") }
func (l *stringList) Set(v string) error { *l = append(*l, v); return nil }

// lists declares a flag that may be given several times.
func lists(fs *flag.FlagSet, name, usage string) *stringList {
	l := &stringList{}
	fs.Var(l, name, usage+" May be given several times.")
	return l
}

// keyValues is a flag with values of the form KEY=VALUE that may be given several
// times.
type keyValues map[string]string

func (m keyValues) String() string { return "" }
func (m keyValues) Set(v string) error {
	key, value, ok := strings.Cut(v, "=")
	if !ok || key == "" {
		return fmt.Errorf("%q is not KEY=VALUE", v)
	}
	m[key] = value
	return nil
}

// refused is a flag of the reference that Drover does not support.
type refused struct {
	why    string
	isBool bool
}

func (r refused) String() string   { return "" }
func (r refused) IsBoolFlag() bool { return r.isBool }
func (r refused) Set(v string) error {
	if r.isBool && v == "false" || v == "" {
		return nil
	}
	return errors.New(r.why + "; leave the flag out")
}

// refuse declares flags that fail when they are used. Their help text gives the
// reason.
func refuse(fs *flag.FlagSet, isBool bool, why string, names ...string) {
	for _, name := range names {
		fs.Var(refused{why, isBool}, name, "Refused: "+why+".")
	}
}

// given reports whether the command line has the flag. The value alone does not tell, since
// it may equal the default.
func given(fs *flag.FlagSet, name string) bool {
	found := false
	fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

func detachFlag(fs *flag.FlagSet) *bool {
	return fs.Bool("detach", false, "Returns at once and prints the id of the evaluation.")
}

func yesFlag(fs *flag.FlagSet, what string) *bool {
	return fs.Bool("yes", false, "Answers yes to "+what+".")
}

// paging holds the flags that select a part of a list.
type paging struct {
	client.Query
}

// filterFlags declares -filter and, if pages is true, -per-page and -page-token.
func filterFlags(fs *flag.FlagSet, pages bool) *paging {
	p := &paging{}
	fs.StringVar(&p.Filter, "filter", "", "Shows only objects that match an expression, such as 'Status == \"running\"'.")
	if pages {
		fs.IntVar(&p.PerPage, "per-page", 0, "Number of results per page; 0 means all.")
		fs.StringVar(&p.NextToken, "page-token", "", "Token printed at the end of the previous page; shows the page after it.")
	}
	return p
}

// more prints how to read the next page.
func (p *paging) more(s *session, meta client.Meta) {
	if meta.NextToken != "" {
		s.printf("\nMore results exist. For the next page pass: -page-token %s", meta.NextToken)
	}
}
