// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// registration holds the flags of plugin register.
type registration struct {
	version, digest, config, pool *string
	onNodes, autoRevert, detach   *bool
	datacenters, constraints      *stringList
	parallel                      *int
	deadline, healthy             *time.Duration
	check                         *int64
}

func registrationFlags(fs *flag.FlagSet) *registration {
	return &registration{
		version:     fs.String("version", "", "Version that the plugin must report; otherwise nodes do not install it."),
		digest:      fs.String("digest", "", "Digest that the file must have, as sha256:HEX. Required unless this command uploads the file."),
		config:      fs.String("config", "", "File with the plugin's configuration; it replaces the config block of the agent's plugin block on all nodes."),
		onNodes:     fs.Bool("on-nodes", false, "The file is an absolute path on the nodes, not on this machine."),
		pool:        fs.String("node-pool", "", "Only nodes of this node pool; all pools by default."),
		datacenters: lists(fs, "datacenter", "Only nodes of this datacenter, a name or a pattern such as eu-*."),
		constraints: lists(fs, "constraint", "Only nodes that meet a constraint, such as '${attr.kernel.name} = linux' or '${meta.gpu} is_set'."),
		parallel:    fs.Int("max-parallel", 0, "Number of nodes that change at the same time; 1 by default."),
		deadline:    fs.Duration("healthy-deadline", 0, "Time that one node may take to become healthy before the roll-out fails; 5m by default."),
		healthy:     fs.Duration("min-healthy-time", 0, "Time that a node must run the plugin before the next node changes; 10s by default."),
		autoRevert:  fs.Bool("auto-revert", false, "If the release fails, returns the nodes that have it to the previous release."),
		detach:      fs.Bool("detach", false, "Returns at once instead of monitoring the roll-out."),
		check:       fs.Int64("check-index", -1, "Registers only if the plugin's modify index is this; 0 means only if it is not registered yet."),
	}
}

func pluginRegister() spec {
	return spec{
		usage: "plugin register [options] <spec.hcl> | <plugin> <file or URL>", synopsis: "Registers plugins for the nodes of the cluster", min: 1, max: 2, takes: takesFiles,
		help: "A single argument is a file of plugin blocks (- means standard input); two arguments are a plugin's name and its file. A file of this machine is\n" +
			"uploaded to the servers; the nodes fetch a URL themselves. The release is rolled out to a few nodes at a time, and the roll-out\n" +
			"stops at the first node that fails. The servers must allow this: plugin_registry = true in the server block of their configuration.",
		setup: func(fs *flag.FlagSet) run {
			r := registrationFlags(fs)
			return func(ctx context.Context, s *session, args []string) error {
				plugins, err := r.plugins(s, args)
				if err != nil {
					return err
				}
				for _, p := range plugins {
					if err := s.registerPlugin(ctx, p, r.cas()); err != nil {
						return err
					}
				}
				if *r.detach {
					return nil
				}
				for _, p := range plugins {
					if err := s.followRollout(ctx, p.Spec.Name, false); err != nil {
						return err
					}
				}
				return nil
			}
		},
	}
}

func (r *registration) cas() *uint64 {
	if *r.check < 0 {
		return nil
	}
	n := uint64(*r.check)
	return &n
}

// plugins returns the plugins to register, read from a file or built from the flags.
func (r *registration) plugins(s *session, args []string) ([]*jobspec.Plugin, error) {
	if len(args) == 1 {
		src, err := readFile(args[0], s.In)
		if err != nil {
			return nil, err
		}
		plugins, err := jobspec.ParsePlugins(src, args[0])
		for _, p := range plugins {
			if p.File != "" && !filepath.IsAbs(p.File) && args[0] != "-" {
				p.File = filepath.Join(filepath.Dir(args[0]), p.File)
			}
		}
		return plugins, err
	}
	spec := &model.PluginSpec{
		Name: args[0], Datacenters: *r.datacenters, NodePool: *r.pool, MaxParallel: *r.parallel, HealthyDeadline: *r.deadline,
		MinHealthyTime: *r.healthy, AutoRevert: *r.autoRevert, Release: &model.PluginRelease{Version: *r.version, Digest: *r.digest, Source: args[1]},
	}
	var err error
	if spec.Constraints, err = readConstraints(*r.constraints); err != nil {
		return nil, err
	}
	if *r.config != "" {
		if spec.Release.Config, err = readConfig(*r.config); err != nil {
			return nil, err
		}
	}
	p := &jobspec.Plugin{Spec: spec}
	switch {
	case *r.onNodes && !filepath.IsAbs(args[1]):
		return nil, errors.New("with -on-nodes the file must be an absolute path")
	case !*r.onNodes && !isURL(args[1]):
		p.File, spec.Release.Source = args[1], ""
	}
	return []*jobspec.Plugin{p}, nil
}

// readConstraints parses constraints of the form "LEFT OPERATOR [RIGHT]".
func readConstraints(texts []string) ([]*model.Constraint, error) {
	var out []*model.Constraint
	for _, text := range texts {
		f := strings.Fields(text)
		if len(f) < 2 {
			return nil, fmt.Errorf("-constraint %q is not of the form 'ATTRIBUTE OPERATOR VALUE'", text)
		}
		out = append(out, &model.Constraint{LTarget: f[0], Operand: f[1], RTarget: strings.Join(f[2:], " ")})
	}
	return out, nil
}

// registerPlugin registers a plugin, after uploading its file if it is a local one.
func (s *session) registerPlugin(ctx context.Context, p *jobspec.Plugin, cas *uint64) error {
	release := p.Spec.Release
	if p.File != "" {
		release.Source = model.PluginSourceUploaded
		if err := s.uploadToRegistry(ctx, p.File, release); err != nil {
			return err
		}
	}
	if release.Digest == "" {
		return fmt.Errorf("plugin %q has no digest, which nodes need to verify the file; pass -digest or set digest in the file (sha256sum prints it)", p.Spec.Name)
	}
	r, err := s.client.RegisterPlugin(ctx, p.Spec, cas)
	if err != nil {
		return err
	}
	s.printf("Plugin %q is registered as revision %d (%s)", p.Spec.Name, r.Revision, release.Digest)
	return nil
}

// uploadToRegistry uploads a file unless the servers already have it.
func (s *session) uploadToRegistry(ctx context.Context, path string, r *model.PluginRelease) error {
	f, size, err := hashed(path, r)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := s.client.PluginFile(ctx, r.Digest); err == nil {
		return nil
	} else if !errdefs.IsNotFound(err) {
		return err
	}
	show := s.newProgress()
	defer show.end()
	sent := &counted{Reader: f, tell: func(n int64) { show.say(fmt.Sprintf("Uploading %s", path), n, size, bytesText) }}
	_, err = s.client.UploadPluginFile(ctx, r.Digest, sent)
	return err
}

func pluginDeregister() spec {
	return spec{
		usage: "plugin deregister [options] <plugin>", synopsis: "Removes a plugin from the registry and from the nodes that installed it from the registry", min: 1, max: 1, takes: takesRegistry,
		help: "A node removes the plugin once none of its tasks use it. A plugin that a node had before it was registered stays.",
		setup: func(fs *flag.FlagSet) run {
			check := fs.Int64("check-index", -1, "Deregisters only if the plugin's modify index is this.")
			return func(ctx context.Context, s *session, args []string) error {
				r := registration{check: check}
				if err := s.client.DeregisterPlugin(ctx, args[0], r.cas()); err != nil {
					return err
				}
				s.printf("Plugin %q is deregistered; nodes remove it once no task uses it", args[0])
				return nil
			}
		},
	}
}
