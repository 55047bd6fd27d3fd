// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"text/template"
	"time"

	"github.com/ryanuber/columnize"

	"github.com/drover-project/drover/core/api/client"
)

// common are the flags that commands share.
type common struct {
	cfg                 client.Config
	noColor, forceColor bool
	verbose             bool
	json                bool
	template            string
}

func (c *common) declare(fs *flag.FlagSet, sp spec) {
	fs.BoolVar(&c.noColor, "no-color", false, "Disables colours. NO_COLOR does the same.")
	fs.BoolVar(&c.forceColor, "force-color", false, "Colours even where output is not a terminal.")
	if sp.output {
		fs.BoolVar(&c.json, "json", false, "Prints the answer as JSON.")
		fs.StringVar(&c.template, "t", "", "Formats the answer with a Go template.")
	}
	if sp.offline {
		return
	}
	c.cfg = client.FromEnv()
	fs.StringVar(&c.cfg.Address, "address", c.cfg.Address, "Address of the agent. DROVER_ADDR or NOMAD_ADDR by default, else "+client.DefaultAddress+".")
	fs.StringVar(&c.cfg.Token, "token", c.cfg.Token, "Secret of the ACL token. DROVER_TOKEN or NOMAD_TOKEN by default.")
	fs.StringVar(&c.cfg.Region, "region", c.cfg.Region, "Region to ask. DROVER_REGION or NOMAD_REGION by default.")
	fs.StringVar(&c.cfg.Namespace, "namespace", c.cfg.Namespace, "Namespace to work in; * is all. DROVER_NAMESPACE or NOMAD_NAMESPACE by default.")
	fs.StringVar(&c.cfg.CACert, "ca-cert", c.cfg.CACert, "File of certificates to trust.")
	fs.StringVar(&c.cfg.CAPath, "ca-path", c.cfg.CAPath, "Folder of certificates to trust.")
	fs.StringVar(&c.cfg.ClientCert, "client-cert", c.cfg.ClientCert, "File of the own certificate.")
	fs.StringVar(&c.cfg.ClientKey, "client-key", c.cfg.ClientKey, "File of the key of the own certificate.")
	fs.StringVar(&c.cfg.TLSServerName, "tls-server-name", c.cfg.TLSServerName, "Name that the agent's certificate must have.")
	fs.BoolVar(&c.cfg.SkipVerify, "tls-skip-verify", c.cfg.SkipVerify, "Does not verify the agent's certificate.")
	fs.BoolVar(&c.verbose, "verbose", false, "Prints full ids and more details.")
}

// session is one run of a command.
type session struct {
	IO
	*common
	client *client.Client
	colour bool
}

func newSession(c *common, stdio IO, sp spec) (*session, error) {
	s := &session{IO: stdio, common: c}
	s.colour = c.forceColor || stdio.Terminal && !c.noColor && stdio.Env["NO_COLOR"] == "" && stdio.Env["NOMAD_CLI_NO_COLOR"] == ""
	if sp.offline {
		return s, nil
	}
	var err error
	s.client, err = client.New(c.cfg)
	return s, err
}

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// title prints the name of a section.
func (s *session) title(format string, args ...any) {
	s.printf("%s", s.paint("1", fmt.Sprintf(format, args...)))
}

// paint colours text by an ANSI code.
func (s *session) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// id shortens an id unless everything was asked for.
func (s *session) id(id string) string {
	if s.verbose || len(id) <= 8 {
		return id
	}
	return id[:8]
}

const column = "\x1f"

// table prints rows under a header, aligned.
func (s *session) table(header []string, rows [][]string) {
	lines := []string{strings.Join(header, column)}
	for _, r := range rows {
		lines = append(lines, strings.Join(r, column))
	}
	s.printf("%s", columnize.Format(lines, &columnize.Config{Delim: column, Glue: "  ", Empty: "<none>"}))
}

// pairs prints names and values, aligned.
func (s *session) pairs(kv ...string) {
	var lines []string
	for i := 0; i+1 < len(kv); i += 2 {
		v := kv[i+1]
		if v == "" {
			v = "<none>"
		}
		lines = append(lines, kv[i]+column+"= "+v)
	}
	s.printf("%s", columnize.Format(lines, &columnize.Config{Delim: column, Glue: " "}))
}

// formatted prints v as -json or -t ask. It reports false if neither was given.
func (s *session) formatted(v any) (bool, error) {
	switch {
	case s.template != "":
		t, err := template.New("").Parse(s.template)
		if err != nil {
			return true, fmt.Errorf("the template of -t has an error: %w", err)
		}
		if err := t.Execute(s.Out, v); err != nil {
			return true, fmt.Errorf("the template of -t cannot be applied: %w", err)
		}
		s.printf("")
		return true, nil
	case s.json:
		return true, s.printJSON(v)
	}
	return false, nil
}

func (s *session) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return fmt.Errorf("the answer cannot be written as JSON: %w", err)
	}
	s.printf("%s", b)
	return nil
}

// ago prints how long ago a time in Unix nanoseconds was.
func ago(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	return duration(time.Since(time.Unix(0, ns))) + " ago"
}

// duration prints the two largest units of d.
func duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	out := ""
	for i, u := range units {
		if n := d / u.size; n > 0 {
			out = fmt.Sprintf("%d%s", n, u.name)
			if i+1 < len(units) {
				if rest := (d % u.size) / units[i+1].size; rest > 0 {
					out += fmt.Sprintf("%d%s", rest, units[i+1].name)
				}
			}
			return out
		}
	}
	return "0s"
}

func date(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	return time.Unix(0, ns).Format(time.RFC3339)
}

// wholeID resolves the prefix of an id. list returns the candidates for a prefix.
func wholeID(ctx context.Context, what, prefix string, list func(ctx context.Context, q *client.Query) ([]string, error)) (string, error) {
	if len(prefix) == 36 {
		return prefix, nil
	}
	if len(prefix) < 2 {
		return "", fmt.Errorf("%q is too short to find %s; give at least two characters of its id", prefix, what)
	}
	query := prefix
	if len(query)%2 == 1 { // servers take whole bytes
		query = query[:len(query)-1]
	}
	ids, err := list(ctx, &client.Query{Prefix: query})
	if err != nil {
		return "", err
	}
	var found []string
	for _, id := range ids {
		if strings.HasPrefix(id, prefix) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("no %s with id or prefix %q found", what, prefix)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("prefix %q matches several: %s; give more characters", prefix, strings.Join(found, ", "))
}
