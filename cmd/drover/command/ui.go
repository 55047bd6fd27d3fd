// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

func uiFlag(fs *flag.FlagSet) *bool {
	return fs.Bool("ui", false, "Prints the address of the page in the web UI, which does not exist yet.")
}

// Paths of the web UI.
func uiJob(namespace, id string) string { return "jobs/" + url.PathEscape(id+"@"+namespace) }
func uiAlloc(id string) string          { return "allocations/" + id }
func uiNode(id string) string           { return "clients/" + id }
func uiEval(id string) string           { return "evaluations?currentEval=" + id }

// uiURL returns the URL of a page of the web UI.
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

// noUI is the error text for commands that would open the web UI.
const noUI = "there is no web UI yet"

// maybeUI prints that there is no web UI if -ui was given.
func (s *session) maybeUI(show bool, page string) {
	if show {
		fmt.Fprintf(s.Err, "Note: %s; this page will be at %s\n", noUI, s.uiURL(page))
	}
}

func ui() spec {
	return spec{
		usage: "ui [options] [<identifier>]", synopsis: "Opens the web UI, which does not exist yet", max: 1, takes: "all",
		help: "Once the web UI exists, this command opens it in a browser.",
		setup: func(fs *flag.FlagSet) run {
			fs.Bool("show-url", false, "Prints the address instead of opening it.")
			fs.Bool("authenticate", false, "Logs the browser in with a one-time token made from the current token.")
			return func(_ context.Context, _ *session, args []string) error {
				instead := "drover status"
				if len(args) == 1 {
					instead += " " + args[0]
				}
				return errdefs.Unimplementedf("%s; see: %s", noUI, instead)
			}
		},
	}
}

// found is an object whose id matches an identifier.
type found struct{ kind, id string }

// identify returns which kind of object an identifier names, as a search context,
// and the object's whole id.
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
		return "", "", fmt.Errorf("no object with the prefix or id %q was found; check the id and -namespace", id)
	case 1:
		return all[0].kind, all[0].id, nil
	}
	return "", "", ambiguous("object", id, candidatesOf(all, func(f found) candidate { return candidate{f.id, f.kind} }))
}

func status() spec {
	shows := map[string]func() spec{"jobs": jobStatus, "allocs": allocStatus, "nodes": nodeStatus, "evals": evalStatus,
		"deployment": deploymentStatus, "node_pools": nodePoolInfo, "namespaces": namespaceStatus, "scaling_policy": scalingInfo}
	return spec{
		usage: "status [options] [<identifier>]", synopsis: "Lists jobs, or shows the object with the given id, of any kind", max: 1, output: true, takes: "all",
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
						return fmt.Errorf("pass on the -ui flag: %w", err)
					}
				}
				return do(ctx, s, []string{id})
			}
		},
	}
}
