// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"strings"
)

func uiFlag(fs *flag.FlagSet) *bool {
	return fs.Bool("ui", false, "Shows the object in the web UI, in a browser.")
}

// Paths of the web UI.
func uiJob(namespace, id string) string { return "jobs/" + url.PathEscape(id+"@"+namespace) }
func uiAlloc(id string) string          { return "allocations/" + id }
func uiNode(id string) string           { return "clients/" + id }
func uiEval(id string) string           { return "evaluations?currentEval=" + id }

// uiURL is the address of a page of the web UI.
func (s *session) uiURL(page string) string {
	u := strings.TrimSuffix(s.client.Address(), "/") + "/ui/" + page
	if s.cfg.Region == "" {
		return u
	}
	sep := "?"
	if strings.Contains(page, "?") {
		sep = "&"
	}
	return u + sep + "region=" + url.QueryEscape(s.cfg.Region)
}

// maybeUI shows a page if -ui was given. That no browser could be started is
// no failure of the command: the address is printed.
func (s *session) maybeUI(show bool, page string) {
	if !show {
		return
	}
	u := s.uiURL(page)
	if s.Open != nil && s.Terminal {
		if err := s.Open(u); err == nil {
			s.printf("Opened %s", u)
			return
		}
	}
	s.printf("Open in a browser: %s", u)
}

func ui() spec {
	return spec{
		usage: "ui [options] [<identifier>]", synopsis: "Shows the web UI, or the page of a job, allocation, node or evaluation, in a browser", max: 1, takes: "all",
		help: "Without a terminal or a browser the address is printed.",
		setup: func(fs *flag.FlagSet) run {
			only := fs.Bool("show-url", false, "Prints the address and opens nothing.")
			login := fs.Bool("authenticate", false, "Logs the browser in with the own token, by a token for one use.")
			return func(ctx context.Context, s *session, args []string) error {
				page := ""
				if len(args) == 1 {
					kind, id, err := s.identify(ctx, args[0])
					if err != nil {
						return err
					}
					switch kind {
					case "jobs":
						page = uiJob(s.client.Namespace(), id)
					case "allocs":
						page = uiAlloc(id)
					case "nodes":
						page = uiNode(id)
					case "evals":
						page = uiEval(id)
					default:
						return fmt.Errorf("the web UI has no page of its own for %q, which is one of %s", id, kind)
					}
				}
				if *login {
					secret, err := s.client.OneTimeToken(ctx)
					if err != nil {
						return err
					}
					page += "?ott=" + url.QueryEscape(secret)
				}
				if *only {
					s.printf("%s", s.uiURL(page))
					return nil
				}
				s.maybeUI(true, page)
				return nil
			}
		},
	}
}

// found is what an identifier may mean.
type found struct{ kind, id string }

// identify finds out what an identifier means: a context of searches and the whole id.
func (s *session) identify(ctx context.Context, id string) (kind, whole string, err error) {
	res, err := s.client.Search(ctx, id, "all")
	if err != nil {
		return "", "", err
	}
	var all []found
	for _, kind := range []string{"jobs", "allocs", "nodes", "evals", "deployment", "node_pools", "namespaces", "scaling_policy"} {
		for _, match := range res.Matches[kind] {
			if match == id {
				return kind, match, nil
			}
			all = append(all, found{kind, match})
		}
	}
	switch len(all) {
	case 0:
		return "", "", fmt.Errorf("nothing with prefix or id %q found; give more of it, or another -namespace", id)
	case 1:
		return all[0].kind, all[0].id, nil
	}
	return "", "", ambiguous("object", id, candidatesOf(all, func(f found) candidate { return candidate{f.id, f.kind} }))
}

func status() spec {
	shows := map[string]func() spec{"jobs": jobStatus, "allocs": allocStatus, "nodes": nodeStatus, "evals": evalStatus,
		"deployment": deploymentStatus, "node_pools": nodePoolInfo, "namespaces": namespaceStatus, "scaling_policy": scalingInfo}
	return spec{
		usage: "status [options] [<identifier>]", synopsis: "Lists jobs, or shows whatever has the id", max: 1, output: true, takes: "all",
		setup: func(fs *flag.FlagSet) run {
			show := uiFlag(fs)
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 0 {
					s.maybeUI(*show, "jobs")
					return s.listJobs(ctx)
				}
				kind, id, err := s.identify(ctx, args[0])
				if err != nil {
					return err
				}
				inner := flag.NewFlagSet("", flag.ContinueOnError)
				do := shows[kind]().setup(inner)
				if *show && inner.Lookup("ui") != nil {
					if err := inner.Set("ui", "true"); err != nil {
						return fmt.Errorf("pass -ui on: %w", err)
					}
				}
				return do(ctx, s, []string{id})
			}
		},
	}
}
