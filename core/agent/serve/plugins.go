// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"cmp"
	"context"
	"io"
	"os/user"
	"slices"
	"strconv"

	"github.com/drover-project/drover/core/agent/fingerprint"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Plugins is the node's host of plugins.
type Plugins interface {
	Listed() []pluginhost.PluginStatus
	Devices() ([]pluginhost.DeviceFingerprint, <-chan struct{})
	Networks() ([]pluginhost.NetworkFingerprint, <-chan struct{})
	Volumes() ([]pluginhost.VolumeFingerprint, <-chan struct{})
	Registries() ([]pluginhost.RegistryFingerprint, <-chan struct{})
	Plugin(name string) (pluginhost.PluginStatus, error)
	InstallFrom(ctx context.Context, r pluginhost.Release, body io.Reader) (pluginhost.PluginStatus, error)
	InstallDetached(ctx context.Context, r pluginhost.Release, body io.Reader) error
	Rollback(ctx context.Context, name string) (pluginhost.PluginStatus, error)
	Disable(ctx context.Context, name string) error
	Enable(ctx context.Context, name string) error
	Reload(ctx context.Context, name string) error
	Remove(ctx context.Context, name string, force bool) error
}

func (s *Server) plugins() (Plugins, error) {
	if s.cfg.Plugins == nil {
		return nil, errdefs.Unimplementedf("this node has no host of plugins")
	}
	return s.cfg.Plugins, nil
}

func (s *Server) answerPlugins(send func([]byte) error) error {
	h, err := s.plugins()
	if err != nil {
		return err
	}
	out := []*model.AgentPlugin{}
	for _, st := range h.Listed() {
		out = append(out, agentPlugin(h, st))
	}
	return sendJSON(send, out)
}

func (s *Server) answerPlugin(name string, send func([]byte) error) error {
	h, err := s.plugins()
	if err != nil {
		return err
	}
	st, err := h.Plugin(name)
	if err != nil {
		all := h.Listed()
		i := slices.IndexFunc(all, func(st pluginhost.PluginStatus) bool { return st.Name == name })
		if i < 0 {
			return err
		}
		st = all[i]
	}
	return sendJSON(send, agentPlugin(h, st))
}

// changePlugin carries out an operator's command for a plugin.
func (s *Server) changePlugin(ctx context.Context, q rpc.PluginRequest, in <-chan []byte, send func([]byte) error) error {
	h, err := s.plugins()
	if err != nil {
		return err
	}
	if err := s.mayChange(q.Action); err != nil {
		return err
	}
	switch q.Action {
	case rpc.PluginInstall, rpc.PluginUpgrade:
		err = install(ctx, h, q, in)
	case rpc.PluginRollback:
		_, err = h.Rollback(ctx, q.Name)
	case rpc.PluginDisable:
		err = h.Disable(ctx, q.Name)
	case rpc.PluginEnable:
		err = h.Enable(ctx, q.Name)
	case rpc.PluginReload:
		err = h.Reload(ctx, q.Name)
	case rpc.PluginRemove:
		return h.Remove(ctx, q.Name, q.Force)
	default:
		err = errdefs.Unimplementedf("this node cannot %q a plugin; upgrade its agent", q.Action)
	}
	if err != nil {
		return err
	}
	return s.answerPlugin(q.Name, send)
}

// mayChange refuses to install or remove plugins unless the node's configuration allows it,
// because plugins may run with the rights of the agent.
func (s *Server) mayChange(action string) error {
	switch action {
	case rpc.PluginInstall, rpc.PluginUpgrade, rpc.PluginRemove:
		if !s.cfg.PluginInstall {
			return errdefs.PermissionDeniedf("this node does not let plugins be changed over the API: a plugin runs with the rights of the agent; " +
				"set plugin_install = true in the client block of its configuration to allow it, or change the file in its plugin_dir")
		}
	}
	return nil
}

func install(ctx context.Context, h Plugins, q rpc.PluginRequest, in <-chan []byte) error {
	if q.Action == rpc.PluginUpgrade {
		if _, err := h.Plugin(q.Name); err != nil {
			return err
		}
	}
	r := pluginhost.Release{Name: q.Name, Version: q.Release.Version, Source: q.Release.Source, Digest: q.Release.Digest, Config: q.Release.Config, Size: q.Size}
	var body io.Reader
	if q.Streamed {
		body = &upload{ctx: ctx, in: in}
	}
	if q.Detach {
		return h.InstallDetached(ctx, r, body)
	}
	_, err := h.InstallFrom(ctx, r, body)
	return err
}

// upload reads the input of a call. A closed input means its end: a caller that gives up
// ends the call instead.
type upload struct {
	ctx  context.Context
	in   <-chan []byte
	rest []byte
}

func (u *upload) Read(p []byte) (int, error) {
	for len(u.rest) == 0 {
		select {
		case b, ok := <-u.in:
			if !ok {
				// A call that broke off closes its input, too.
				if err := u.ctx.Err(); err != nil {
					return 0, err
				}
				return 0, io.EOF
			}
			u.rest = b
		case <-u.ctx.Done():
			return 0, u.ctx.Err()
		}
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

func agentPlugin(h Plugins, st pluginhost.PluginStatus) *model.AgentPlugin {
	out := &model.AgentPlugin{
		Name: st.Name, Version: st.Version, Path: st.Path, Digest: st.Digest, PID: st.PID, State: string(st.State), Restarts: st.Restarts,
		Reattached: st.Reattached, Drivers: st.Drivers, Devices: st.Devices, Collectors: st.Collectors, Networks: st.Networks, Volumes: st.Volumes, Registries: st.Registries, Tasks: st.Tasks, Previous: st.Previous,
		Warnings: append(slices.Clip(st.Warnings), problems(h, st)...),
	}
	devices, _ := h.Devices()
	for _, d := range devices {
		if d.Plugin == st.Name {
			out.DeviceGroups = append(out.DeviceGroups, pluginhost.DeviceGroups(d, fingerprint.PCINode)...)
			out.DeviceProblem = cmp.Or(out.DeviceProblem, d.Problem)
		}
	}
	out.Access, out.Stacks = pluginAccess(st), st.Stacks
	if st.LastError != nil {
		out.LastError = st.LastError.Error()
	}
	if st.UpgradeError != nil {
		out.UpgradeError = st.UpgradeError.Error()
	}
	if w := st.Work; w != nil {
		out.Work = &model.PluginWork{Action: w.Action, Step: string(w.Step), Done: w.Done, Total: w.Total, Began: w.Began}
		if !w.Ended.IsZero() {
			out.Work.Ended = &w.Ended
		}
		if w.Err != nil {
			out.Work.Error = w.Err.Error()
		}
	}
	for _, b := range st.Bad {
		out.Bad = append(out.Bad, model.BadPluginVersion(b))
	}
	return out
}

// problems says what a plugin that runs cannot offer, such as one network of several.
func problems(h Plugins, st pluginhost.PluginStatus) (out []string) {
	add := func(plugin, why string) {
		if plugin == st.Name && why != "" && (st.LastError == nil || st.LastError.Error() != why) {
			out = append(out, why)
		}
	}
	networks, _ := h.Networks()
	for _, f := range networks {
		add(f.Plugin, f.Problem)
	}
	volumes, _ := h.Volumes()
	for _, f := range volumes {
		add(f.Plugin, f.Problem)
	}
	registries, _ := h.Registries()
	for _, f := range registries {
		add(f.Plugin, f.Problem)
	}
	return out
}

// pluginAccess describes what a plugin may do; nil if it has not run.
func pluginAccess(st pluginhost.PluginStatus) *model.PluginAccess {
	g := st.Granted
	if g == nil {
		return nil
	}
	restricted := func(is bool) string {
		if is {
			return confine.Restricted
		}
		return confine.Everything
	}
	out := &model.PluginAccess{
		Profile: g.Profile, UID: g.UID, Groups: g.Rights.Groups, Capabilities: g.Capabilities, NoNewPrivileges: g.NoNewPrivileges,
		Filesystem: restricted(g.RestrictFiles), HiddenPaths: g.Hidden, ReadPaths: g.Read, WritePaths: g.Write,
		Syscalls: restricted(g.RestrictSyscalls), Network: g.Network, MemoryMB: g.MemoryMB, Pids: g.Pids, OpenFiles: g.OpenFiles, StateMB: g.StateMB,
		TLS: st.TLS, Socket: st.Socket, Folder: g.Folder, Lacking: g.Lacking,
	}
	if u, err := user.LookupId(strconv.Itoa(g.UID)); err == nil {
		out.User = u.Username
	}
	return out
}
