// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/plugin"
)

// Config configures a Launcher; all of it is required unless it says otherwise.
type Config struct {
	// StateDir is a directory of the host's own, below which the sockets are.
	StateDir string
	// Store may be nil: processes are then not found again after a restart.
	Store  Store
	Logger hclog.Logger
	// Env is passed to plugins in addition to the variables that all get, as
	// "NAME=value"; it may be nil.
	Env []string
	// Args are the command lines of the processes, by the name of the file.
	Args map[string][]string
	// Limits limit each plugin's processes, by the name of its file; "*" applies to
	// all others.
	Limits map[string]confine.Limits
	// StartTimeout limits a launch with its handshake.
	StartTimeout time.Duration
}

// Launcher starts the processes of plugins, and finds or ends those of an earlier
// agent.
type Launcher struct {
	cfg       Config
	socketDir string
	limiter   *limiter
	// Others are the processes besides the current one of each plugin.
	Others *Others
}

// NewLauncher makes a launcher and its directory for sockets. No process is started.
func NewLauncher(cfg Config) (*Launcher, error) {
	sealDescriptors()
	stateDir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("plugin host: %w", err)
	}
	socketDir, err := privateSocketDir(stateDir)
	if err != nil {
		return nil, err
	}
	l := &Launcher{cfg: cfg, socketDir: socketDir, limiter: newLimiter(cfg.Limits, stateDir, cfg.Logger)}
	l.Others = newOthers(l)
	return l, nil
}

// SocketDir is the directory of the sockets of all processes.
func (l *Launcher) SocketDir() string { return l.socketDir }

// Mark is a variable, as "NAME=value", that the processes of plugins and what they
// start have in their environment, and nothing else on the machine.
func (l *Launcher) Mark() string { return goplugin.EnvUnixSocketDir + "=" + l.socketDir }

// passedVariables are the variables that a plugin inherits from the agent's
// environment.
var passedVariables = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "SYSTEMROOT", "TEMP", "TMP"}

func (l *Launcher) environment() []string {
	env := []string{
		l.Mark(),
		// In addition to our own cookie: a plugin looks for the one with which it was
		// built.
		nomadCookieKey + "=" + nomadCookieValue,
	}
	for _, name := range passedVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, l.cfg.Env...)
}

// Launch starts a plugin, shakes hands with it and asks for its Info.
func (l *Launcher) Launch(ctx context.Context, f File) (*Process, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	cmd, oomKills := exec.Command(f.Binary(), l.cfg.Args[f.Name]...), l.limiter.kills(f.Name)
	cmd.Env = l.environment()
	detach(cmd)
	stderr := &tail{}
	c := newClient(goplugin.ClientConfig{
		VersionedPlugins: plugin.ClientSet(nomadProtocol),
		Cmd:              cmd,
		SkipHostEnv:      true,
		StartTimeout:     l.cfg.StartTimeout,
		Stderr:           stderr,
		Logger:           l.clientLogger(f.Name),
	})
	begin, id := time.Now(), Identity(f.Binary())
	if _, err := c.Start(); err != nil {
		took := time.Since(begin)
		return nil, l.launchError(f, cmd, c.endLaunch(cmd), stderr, took, err)
	}
	p := &Process{
		File: f, Identity: id, launcher: l, client: c, cmd: cmd, stderr: stderr, version: c.NegotiatedVersion(), oomKills: oomKills,
	}
	if err := p.connect(ctx); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

func (l *Launcher) clientLogger(name string) hclog.Logger {
	return newPlainLogger(l.cfg.Logger.Named(name))
}

// Reattach finds the process of an earlier agent, if it still runs the current file. A
// process of a replaced file is ended: the new one recovers its tasks.
func (l *Launcher) Reattach(ctx context.Context, f File) (*Process, error) {
	rec, err := l.recorded(ctx, f.Name)
	if rec == nil || err != nil {
		return nil, err
	}
	p, err := l.adopt(ctx, f, *rec)
	if p == nil || err != nil {
		return nil, err
	}
	if rec.Identity != Identity(f.Binary()) {
		l.cfg.Logger.Info("the plugin's file was replaced, so its process is", "plugin", f.Name, "pid", p.PID)
		p.Stop()
		return nil, nil
	}
	if !slices.Equal(rec.Args, l.cfg.Args[f.Name]) {
		l.cfg.Logger.Info("the plugin has other args now, so its process is replaced", "plugin", f.Name, "pid", p.PID)
		p.Stop()
		return nil, nil
	}
	return p, nil
}

// adopt connects to a process of an earlier agent; nil if it is gone.
func (l *Launcher) adopt(ctx context.Context, f File, rec record) (*Process, error) {
	c := newClient(goplugin.ClientConfig{
		Plugins: plugin.ClientSet(rec.Version)[rec.Version],
		Logger:  l.clientLogger(f.Name),
		Reattach: &goplugin.ReattachConfig{
			Protocol: goplugin.ProtocolGRPC, ProtocolVersion: rec.Version, Pid: rec.PID, Addr: rec.address(),
		},
	})
	if _, err := c.Start(); err != nil {
		l.endUnreachable(f.Name, rec) // after a reboot there is none
		return nil, nil
	}
	p := &Process{File: f, Reattached: true, Identity: rec.Identity, launcher: l, client: c, stderr: &tail{}, version: rec.Version}
	if err := p.connect(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("reattach: %w", err)
	}
	return p, nil
}

func (r record) address() net.Addr {
	if r.Network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: r.Address}
	}
	addr, err := net.ResolveTCPAddr("tcp", r.Address)
	if err != nil {
		return &net.TCPAddr{}
	}
	return addr
}

// Release removes the limits of a plugin that is gone.
func (l *Launcher) Release(name string) { l.limiter.release(name) }
