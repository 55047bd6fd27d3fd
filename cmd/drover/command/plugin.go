// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// takesPlugins marks commands whose arguments are plugins of a node.
const takesPlugins = "agent-plugins"

// takesPluginFile marks commands whose arguments are a plugin of a node and a file.
const takesPluginFile = "agent-plugin and file"

// onNode declares the flag -node of commands about the plugins of one node.
func onNode(fs *flag.FlagSet) *string {
	return fs.String("node", "", "Node; the agent's own node by default.")
}

func pluginList() spec {
	return spec{
		usage: "plugin list [options]", synopsis: "Lists the plugins of a node", output: true,
		setup: func(fs *flag.FlagSet) run {
			node := onNode(fs)
			return func(ctx context.Context, s *session, _ []string) error { return s.listPlugins(ctx, *node) }
		},
	}
}

func pluginStatus() spec {
	return spec{
		usage: "plugin status [options] [<plugin>]", synopsis: "Shows one plugin of a node, or lists all; with -type csi, storage plugins of the cluster", max: 1, output: true, takes: takesPlugins,
		help: "Without -type the command shows the plugin processes of one node's agent: drivers, devices,\ncollectors. With -type csi it shows the storage plugins that jobs of the cluster provide, and so\nit does without -type for the id of one.",
		setup: func(fs *flag.FlagSet) run {
			node := onNode(fs)
			kind := fs.String("type", "", "Type of plugin: csi.")
			short := fs.Bool("short", false, "With -type csi: leaves out allocations.")
			return func(ctx context.Context, s *session, args []string) error {
				switch {
				case *kind == "csi" && *node != "":
					return errors.New("-node cannot be combined with -type csi: CSI plugins belong to the cluster, not to a node")
				case *kind == "csi":
					return s.storagePlugins(ctx, args, *short)
				case *short:
					return errors.New("-short needs -type csi")
				case *kind != "":
					return fmt.Errorf("-type %q is unknown; the only type is csi", *kind)
				case len(args) == 0:
					return s.listPlugins(ctx, *node)
				}
				id, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				p, err := s.client.AgentPlugin(ctx, id, args[0])
				if err != nil && *node == "" {
					// Those who know the reference's command name a CSI driver.
					if driver, unknown := s.onlyCSIPlugin(ctx, args[0]); unknown == nil {
						return s.storagePlugins(ctx, []string{driver}, false)
					}
				}
				if err != nil {
					return err
				}
				var held map[string]string
				if len(p.DeviceGroups) > 0 {
					if held, err = s.heldOf(ctx, id, p.DeviceGroups); err != nil {
						return err
					}
				}
				return s.show(p, nil, func() { s.describePlugin(p, held) })
			}
		},
	}
}

func (s *session) listPlugins(ctx context.Context, node string) error {
	id, err := s.nodeID(ctx, node)
	if err != nil {
		return err
	}
	plugins, err := s.client.AgentPlugins(ctx, id)
	return s.show(plugins, err, func() {
		var rows [][]string
		for _, p := range plugins {
			rows = append(rows, []string{p.Name, p.Version, p.State, text(p.Tasks), text(p.Restarts), serves(p)})
		}
		s.tableOr("No plugins", []string{"Name", "Version", "State", "Tasks", "Restarts", "Serves"}, rows)
		for _, p := range plugins {
			if why := firstOf(p.LastError, p.UpgradeError, strings.Join(p.Warnings, "; ")); why != "" {
				s.printf("\n%s: %s", p.Name, why)
			}
		}
	})
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// serves lists what a plugin provides. Each name is listed once, even if it is a
// driver and a collector.
func serves(p *model.AgentPlugin) string {
	names := slices.Concat(p.Drivers, p.Devices, p.Collectors, p.Networks, p.Volumes, p.Registries)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// heldOf returns the tasks that have devices of the groups, by the label of the device.
// Without a node it asks the agent's own.
func (s *session) heldOf(ctx context.Context, node string, groups []*model.NodeDeviceResource) (map[string]string, error) {
	if node == "" {
		var err error
		if node, err = s.ownNode(ctx, "name one with -node"); err != nil {
			return nil, err
		}
	}
	list, _, err := s.client.NodeAllocations(ctx, node, nil)
	all, out := s.holders(list), map[string]string{}
	for label := range healthOf(groups) {
		if who := all[label]; who != "" {
			out[label] = who
		}
	}
	return out, err
}

func (s *session) describePlugin(p *model.AgentPlugin, held map[string]string) {
	process := "<none>"
	if p.PID != 0 {
		process = text(p.PID)
	}
	s.pairs("Name", p.Name, "Version", p.Version, "State", p.State, "Process", process, "Path", p.Path, "Digest", p.Digest,
		"Previous", p.Previous, "Drivers", strings.Join(p.Drivers, ", "), "Devices", strings.Join(p.Devices, ", "),
		"Collectors", strings.Join(p.Collectors, ", "), "Networks", strings.Join(p.Networks, ", "), "Volumes", strings.Join(p.Volumes, ", "), "Registries", strings.Join(p.Registries, ", "),
		"Tasks", text(p.Tasks), "Restarts", text(p.Restarts), "Last change", workText(p))
	s.describeAccess(p.Access)
	if p.Stacks != "" {
		s.title("\nStacks")
		s.printf("The process wrote the stacks of its goroutines when it received SIGQUIT: %s", p.Stacks)
	}
	for _, part := range []struct{ title, why string }{{"Error", p.LastError}, {"Upgrade", p.UpgradeError}, {"Devices", p.DeviceProblem}, {"Left out", strings.Join(p.Warnings, "\n")}} {
		if part.why != "" && (part.title != "Upgrade" || part.why != p.LastError) {
			s.title("\n%s", part.title)
			s.printf("%s", part.why)
		}
	}
	s.deviceTable(p.DeviceGroups, held)
	if len(p.Bad) > 0 {
		s.title("\nVersions that failed")
		for _, b := range p.Bad {
			at := "at an unknown time"
			if !b.At.IsZero() {
				at = when(b.At)
			}
			why := b.Why
			if why == p.UpgradeError || why == p.LastError {
				why = "see above"
			}
			s.printf("%s, %s: %s", b.Digest, at, why)
		}
	}
}

// storagePlugins prints CSI drivers as the reference's plugin status does.
func (s *session) storagePlugins(ctx context.Context, args []string, short bool) error {
	if len(args) == 1 {
		id, err := s.onlyCSIPlugin(ctx, args[0])
		if err != nil {
			return err
		}
		p, err := s.client.CSIPlugin(ctx, id)
		return s.show(p, err, func() { s.describeCSIPlugin(p, short) })
	}
	list, err := s.client.CSIPlugins(ctx, nil)
	return s.show(list, err, func() {
		s.title("Container Storage Interface")
		var rows [][]string
		for _, p := range list {
			rows = append(rows, []string{p.ID, p.Provider, fmt.Sprintf("%d/%d", p.ControllersHealthy, p.ControllersExpected), fmt.Sprintf("%d/%d", p.NodesHealthy, p.NodesExpected)})
		}
		s.tableOr("No CSI plugins", []string{"ID", "Provider", "Controllers Healthy/Expected", "Nodes Healthy/Expected"}, rows)
	})
}

func (s *session) describeCSIPlugin(p *api.CSIPlugin, short bool) {
	s.pairs("ID", p.ID, "Provider", p.Provider, "Version", p.Version, "Controller Required", text(p.ControllerRequired),
		"Controllers Healthy", text(p.ControllersHealthy), "Controllers Expected", text(p.ControllersExpected),
		"Nodes Healthy", text(p.NodesHealthy), "Nodes Expected", text(p.NodesExpected))
	for _, parts := range []struct {
		title string
		of    map[string]*model.CSIInfo
	}{{"Controllers", p.Controllers}, {"Nodes", p.Nodes}} {
		if len(parts.of) == 0 {
			continue
		}
		s.title("\n%s", parts.title)
		var rows [][]string
		for _, node := range slices.Sorted(maps.Keys(parts.of)) {
			i := parts.of[node]
			rows = append(rows, []string{s.id(node), s.id(i.AllocID), text(i.Healthy), i.HealthDescription, ago(i.UpdateTime.UnixNano())})
		}
		s.table([]string{"Node ID", "Alloc ID", "Healthy", "Description", "Since"}, rows)
	}
	if why := p.Contested(); why != "" {
		s.printf("\nWarning: %s", visible(why))
	}
	if !short {
		s.title("\nAllocations")
		s.allocTable(p.Allocations)
	}
}

// pluginAction defines a command that sends one action for a plugin.
func pluginAction(action, synopsis, help, said string) func() spec {
	return func() spec {
		return spec{
			usage: "plugin " + action + " [options] <plugin>", synopsis: synopsis, help: help, min: 1, max: 1, output: true, takes: takesPlugins,
			setup: func(fs *flag.FlagSet) run {
				node := onNode(fs)
				return func(ctx context.Context, s *session, args []string) error {
					id, err := s.nodeID(ctx, *node)
					if err != nil {
						return err
					}
					p, err := s.client.ChangeAgentPlugin(ctx, id, args[0], action)
					return s.show(p, err, func() { s.printf("Plugin %q %s", p.Name, fmt.Sprintf(said, cmp.Or(p.Version, "unknown"), p.State)) })
				}
			},
		}
	}
}

func pluginRemove() spec {
	return spec{
		usage: "plugin remove [options] <plugin>", synopsis: "Stops a plugin of a node and deletes its file", min: 1, max: 1, takes: takesPlugins,
		help: "A plugin whose drivers have tasks is removed only with -force. The tasks then keep running without supervision\nuntil a plugin with their driver is installed again.",
		setup: func(fs *flag.FlagSet) run {
			node := onNode(fs)
			force := fs.Bool("force", false, "Removes the plugin even if its drivers have tasks.")
			return func(ctx context.Context, s *session, args []string) error {
				id, err := s.nodeID(ctx, *node)
				if err != nil {
					return err
				}
				if err := s.client.RemoveAgentPlugin(ctx, id, args[0], *force); err != nil {
					return err
				}
				s.printf("Plugin %q removed", args[0])
				return nil
			}
		},
	}
}
