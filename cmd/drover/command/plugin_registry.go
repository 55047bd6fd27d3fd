// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/registry"
)

// takesRegistry marks commands whose arguments are plugins of the cluster's
// registry.
const takesRegistry = "registry-plugins"

func pluginRegistry() spec {
	return spec{
		usage: "plugin registry [options] [<plugin>]", synopsis: "Lists the plugins of the cluster's registry, or shows one and the status of its nodes", max: 1, output: true, takes: takesRegistry,
		setup: func(fs *flag.FlagSet) run {
			reveal := fs.Bool("reveal", false, "Shows the values of the plugin's configuration, which may contain secrets.")
			q := filterFlags(fs, true)
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 1 {
					return s.showRegistered(ctx, args[0], *reveal)
				}
				list, meta, err := s.client.RegistryPlugins(ctx, &q.Query)
				return s.show(list, err, func() {
					var rows [][]string
					for _, p := range list {
						rows = append(rows, []string{p.Name, p.Version, s.digest(p.Digest), where(p.Datacenters, p.NodePool), p.Status, p.StatusDescription})
					}
					s.tableOr("No plugins are registered", []string{"Name", "Version", "Digest", "Nodes", "Status", "Description"}, rows)
					q.more(s, meta)
				})
			}
		},
	}
}

// digest shortens a digest unless -verbose was given.
func (s *session) digest(d string) string {
	if digits := strings.TrimPrefix(d, "sha256:"); !s.verbose && len(digits) > 12 {
		return digits[:12]
	}
	return d
}

// where describes the nodes that a plugin is for.
func where(datacenters []string, pool string) string {
	var parts []string
	if len(datacenters) > 0 {
		parts = append(parts, "datacenters "+strings.Join(datacenters, ", "))
	}
	if pool != "" && pool != model.NodePoolAll {
		parts = append(parts, "pool "+pool)
	}
	if len(parts) == 0 {
		return "all"
	}
	return strings.Join(parts, "; ")
}

// registered is the JSON output of plugin registry NAME.
type registered struct {
	*model.PluginSpec
	Nodes []*api.PluginNode
}

func (s *session) showRegistered(ctx context.Context, name string, reveal bool) error {
	p, _, err := s.client.RegistryPlugin(ctx, name, reveal, nil)
	if err != nil {
		return err
	}
	nodes, _, err := s.client.RegistryPluginNodes(ctx, name, nil)
	return s.show(&registered{p, nodes}, err, func() {
		s.describeRegistered(p)
		s.title("\nNodes: %s", tally(nodes))
		var rows [][]string
		for _, n := range nodes {
			rows = append(rows, []string{s.id(n.ID), n.Name, n.Standing, n.Version, s.digest(n.Digest), n.State, n.Description})
		}
		s.tableOr("No node is targeted", []string{"ID", "Name", "Standing", "Version", "Digest", "State", "Description"}, rows)
	})
}

func (s *session) describeRegistered(p *model.PluginSpec) {
	previous := ""
	if p.Previous != nil {
		previous = p.Previous.Label() + " (" + s.digest(p.Previous.Digest) + ")"
	}
	s.pairs("Name", p.Name, "Version", p.Release.Version, "Revision", text(p.Release.Revision), "Digest", p.Release.Digest,
		"Source", p.Release.Source, "Previous", previous, "Nodes", where(p.Datacenters, p.NodePool), "Max Parallel", text(p.MaxParallel),
		"Healthy Deadline", p.HealthyDeadline.String(), "Min Healthy Time", p.MinHealthyTime.String(), "Auto Revert", text(p.AutoRevert),
		"Status", p.Rollout.Status, "Description", p.Rollout.Description)
	if len(p.Constraints) > 0 {
		s.title("\nConstraints")
		for _, c := range p.Constraints {
			s.printf("%s", c)
		}
	}
	if len(p.Release.Config) > 0 {
		s.title("\nConfig")
		for _, k := range slices.Sorted(maps.Keys(p.Release.Config)) {
			s.printf("%s = %v", k, p.Release.Config[k])
		}
	}
}

// tally counts nodes by status: "3 done, 1 in flight".
func tally(nodes []*api.PluginNode) string {
	counts := map[string]int{}
	for _, n := range nodes {
		counts[n.Standing]++
	}
	var parts []string
	for _, standing := range []registry.Standing{registry.Done, registry.InFlight, registry.Waiting, registry.Failed, registry.Down, registry.Elsewhere} {
		if n := counts[string(standing)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, standing))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func pluginRollout() spec {
	return spec{
		usage: "plugin rollout [options] <plugin>", synopsis: "Shows, monitors or controls the roll-out of a plugin's release", min: 1, max: 1, takes: takesRegistry,
		help: "Without options the command shows the progress of the roll-out. With -monitor it waits for the end and exits with 1 if the roll-out fails.",
		setup: func(fs *flag.FlagSet) run {
			acts := map[string]*bool{
				model.PluginRolloutPause:  fs.Bool("pause", false, "Pauses the roll-out: no further nodes change."),
				model.PluginRolloutResume: fs.Bool("resume", false, "Resumes a paused roll-out, or retries a failed one."),
				model.PluginRolloutRevert: fs.Bool("revert", false, "Reverts to the previous release."),
			}
			monitor := fs.Bool("monitor", false, "Monitors the roll-out to its end.")
			return func(ctx context.Context, s *session, args []string) error {
				act := ""
				for name, chosen := range acts {
					if *chosen && act != "" {
						return errors.New("give one of -pause, -resume and -revert")
					} else if *chosen {
						act = name
					}
				}
				if act != "" {
					r, err := s.client.SteerPluginRollout(ctx, args[0], act)
					if err != nil {
						return err
					}
					s.printf("The roll-out of plugin %q is %s", args[0], r.Status)
				}
				switch {
				case *monitor:
					return s.followRollout(ctx, args[0], act == model.PluginRolloutRevert)
				case act == "":
					return s.showRegistered(ctx, args[0], false)
				}
				return nil
			}
		},
	}
}

// monitorWait is the time limit of one blocking query of a monitor.
const monitorWait = time.Minute

// followRollout prints the steps of a roll-out until it ends. It fails if the
// roll-out fails, or rolls back without back being set.
func (s *session) followRollout(ctx context.Context, name string, back bool) error {
	last, q := "", &client.Query{}
	for {
		nodes, meta, err := s.client.RegistryPluginNodes(ctx, name, q)
		if err != nil {
			return err
		}
		p, _, err := s.client.RegistryPlugin(ctx, name, false, nil)
		if err != nil {
			return err
		}
		if p.Rollout.Status != model.PluginRolloutRunning { // it may have ended after the nodes were read
			if nodes, _, err = s.client.RegistryPluginNodes(ctx, name, nil); err != nil {
				return err
			}
		}
		line := fmt.Sprintf("Plugin %q %s is %s: %s", name, p.Release.Label(), p.Rollout.Status, tally(nodes))
		if p.Rollout.Description != "" {
			line += " (" + p.Rollout.Description + ")"
		}
		if line != last {
			s.step("%s", line)
			last = line
		}
		switch {
		case p.Rollout.Status == model.PluginRolloutFailed, p.Rollout.Status == model.PluginRolloutComplete && p.Rollout.GivenUp != nil && !back:
			return &exitCode{code: exitError, err: fmt.Errorf("the roll-out of plugin %q failed: %s", name, p.Rollout.Description)}
		case p.Rollout.Status == model.PluginRolloutComplete, p.Rollout.Status == model.PluginRolloutPaused:
			return nil
		}
		q = &client.Query{WaitIndex: meta.Index, WaitTime: monitorWait}
	}
}

// registryNames returns the plugins of the registry, for completion.
func registryNames(ctx context.Context, agent *client.Client, prefix string) []string {
	list, _, err := agent.RegistryPlugins(ctx, &client.Query{Prefix: prefix})
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range list {
		out = append(out, p.Name)
	}
	return out
}
