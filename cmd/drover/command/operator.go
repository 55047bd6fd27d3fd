// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api/client"
)

func operatorAPI() spec {
	return spec{
		usage: "operator api [options] <path>", synopsis: "Sends a request to the HTTP API, as curl would", min: 1, max: 1,
		help: "The path begins with /v1/; a full URL works too. The address, token, region and namespace\nare set as for other commands. The request body is the value of -d, or standard input if\nstandard input is not a terminal and the method is not GET. If the status is 400 or above,\nthe answer is printed and the exit code is 1.",
		setup: func(fs *flag.FlagSet) run {
			method := fs.String("X", "", "Method; GET by default, PUT with a body.")
			data := fs.String("d", "", "Body; @FILE reads it from a file.")
			headers := lists(fs, "H", "Header 'NAME: VALUE'.")
			filter := fs.String("filter", "", "Filter expression for the objects of the answer.")
			dry := fs.Bool("dryrun", false, "Prints the equivalent curl command instead of sending the request.")
			return func(ctx context.Context, s *session, args []string) error {
				req, err := s.apiRequest(args[0], *filter, *headers)
				if err != nil {
					return err
				}
				body, err := s.apiBody(*data, *method)
				if err != nil {
					return err
				}
				req.Method = strings.ToUpper(*method)
				if body != "" {
					req.Body = strings.NewReader(body)
				}
				if req.Method == "" {
					req.Method = map[bool]string{false: http.MethodGet, true: http.MethodPut}[body != ""]
				}
				if *dry {
					s.printf("%s", s.curl(req, body))
					return nil
				}
				return s.sendAPI(ctx, req)
			}
		},
	}
}

// apiRequest builds a request for a path, or for a URL, which then replaces the
// agent's address.
func (s *session) apiRequest(path, filter string, headers []string) (*client.Request, error) {
	if !strings.HasPrefix(path, "/") && !strings.Contains(path, "://") {
		// HOST:PORT/v1/... is an address. A path without its slash must not be taken for one: the
		// token would go to whoever has that name.
		if host := path[:strings.IndexAny(path+"/", "/?")]; host != "localhost" && !strings.ContainsAny(host, ".:") {
			return nil, fmt.Errorf("%q is not a path of the API; use /v1/%s", path, strings.TrimPrefix(path, "v1/"))
		}
		path = "http://" + path
	}
	u, err := url.Parse(path)
	if err != nil {
		return nil, fmt.Errorf("%q is not a path of the API; use /v1/...: %w", path, err)
	}
	if u.Host != "" {
		s.cfg.Address = u.Scheme + "://" + u.Host
		if s.client, err = client.New(s.cfg); err != nil {
			return nil, err
		}
	}
	req := &client.Request{Path: u.EscapedPath(), Params: u.Query(), Header: http.Header{}}
	if filter != "" {
		req.Params.Set("filter", filter)
	}
	for _, h := range headers {
		name, value, ok := strings.Cut(h, ":")
		if !ok {
			return nil, fmt.Errorf("-H %q: use 'NAME: VALUE'", h)
		}
		req.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return req, nil
}

// maxBody is the number of bytes of a request body.
const maxBody = 64 << 20

func (s *session) apiBody(data, method string) (string, error) {
	if name, ok := strings.CutPrefix(data, "@"); ok {
		b, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("cannot read the body: %w", err)
		}
		return string(b), nil
	}
	if data != "" || s.InTerminal || method == "" || slices.Contains([]string{"GET", "HEAD", "DELETE"}, strings.ToUpper(method)) {
		return data, nil
	}
	b, err := readUpTo(maxBody, s.In, "the body")
	return string(b), err
}

func (s *session) sendAPI(ctx context.Context, req *client.Request) error {
	if s.verbose {
		fmt.Fprintf(s.Err, "> %s %s\n", req.Method, s.client.URL(req))
		printHeaders(s.Err, "> ", req.Header)
	}
	answer, err := s.client.Do(ctx, req)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if s.verbose {
		fmt.Fprintf(s.Err, "< %d %s\n", answer.Status, http.StatusText(answer.Status))
		printHeaders(s.Err, "< ", answer.Header)
	}
	if _, err := io.Copy(s.Out, answer.Body); err != nil {
		return fmt.Errorf("the answer was cut off: %w", err)
	}
	if answer.Status >= 400 {
		return &exitCode{exitError, fmt.Errorf("the agent answered with status %d", answer.Status)}
	}
	return nil
}

func printHeaders(w io.Writer, mark string, h http.Header) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		for _, v := range h[name] {
			fmt.Fprintf(w, "%s%s: %s\n", mark, name, v)
		}
	}
}

// curl returns the curl command line that sends the same request.
func (s *session) curl(req *client.Request, body string) string {
	words := []string{"curl", "-X", req.Method}
	flag := func(name, value string) {
		if value != "" {
			words = append(words, name, quoteShell(value))
		}
	}
	flag("--cacert", s.cfg.CACert)
	flag("--capath", s.cfg.CAPath)
	flag("--cert", s.cfg.ClientCert)
	flag("--key", s.cfg.ClientKey)
	if s.cfg.SkipVerify {
		words = append(words, "--insecure")
	}
	if path, ok := strings.CutPrefix(s.client.Address(), "unix://"); ok {
		flag("--unix-socket", path)
	}
	if s.cfg.Token != "" {
		words = append(words, "-H", `"X-Nomad-Token: ${DROVER_TOKEN}"`) // the token itself is never printed
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		for _, v := range req.Header[name] {
			flag("-H", name+": "+v)
		}
	}
	flag("--data-binary", body)
	return strings.Join(append(words, quoteShell(s.client.URL(req))), " ")
}

func quoteShell(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func operatorMetrics() spec {
	return spec{
		usage: "operator metrics [options]", synopsis: "Prints the metrics of the agent", output: true,
		setup: func(fs *flag.FlagSet) run {
			format := fs.String("format", "json", "json or prometheus.")
			pretty := fs.Bool("pretty", false, "Indents the JSON.")
			return func(ctx context.Context, s *session, _ []string) error {
				switch {
				case *format != "json" && *format != "prometheus":
					return fmt.Errorf("-format %q: use json or prometheus", *format)
				case s.json || s.template != "":
					m, err := s.client.Metrics(ctx)
					if err == nil {
						_, err = s.formatted(m)
					}
					return err
				}
				q := &client.Query{Params: url.Values{"histograms": {"true"}}}
				if *format == "prometheus" {
					q.Params = url.Values{"format": {*format}}
				}
				body, err := s.client.Raw(ctx, "/v1/metrics", q)
				if err != nil {
					return err
				}
				defer body.Close()
				if *pretty && *format == "json" {
					var m any
					if err := json.NewDecoder(body).Decode(&m); err != nil {
						return fmt.Errorf("cannot read the metrics: %w", err)
					}
					return s.printJSON(m)
				}
				_, err = io.Copy(s.Out, body)
				return err
			}
		},
	}
}
