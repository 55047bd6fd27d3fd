// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	runnerapi "github.com/hashicorp/go-plugin/runner"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
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
	// Host is how the host introduces itself to plugins.
	Host plugin.Host
	// Args are the command lines of the processes, by the name of the file.
	Args map[string][]string
	// Limits limit each plugin's processes, by the name of its file; "*" applies to
	// all others.
	Limits map[string]confine.Limits
	// Confine gives plugins the rights of their kind only, changed by Access, by the name
	// of the file. Otherwise they have the agent's.
	Confine bool
	Access  map[string]confine.Access
	// Hidden are directories that restricted plugins do not see, besides StateDir.
	Hidden []string
	// Tied ends the processes when this one ends, even if it is killed, on Linux. It
	// excludes Confine, whose processes outlive an agent.
	Tied bool
	// StartTimeout limits a launch with its handshake.
	StartTimeout time.Duration
}

// Launcher starts the processes of plugins, and finds or ends the processes of an earlier
// agent.
type Launcher struct {
	cfg       Config
	stateDir  string
	socketDir string
	hidden    []string
	folders   *folders
	limiter   *limiter
	said      sayings
	// Others are the processes besides the current one of each plugin.
	Others *Others

	mu       sync.Mutex
	profiles map[string]string // by plugin
}

// NewLauncher makes a launcher and its directory for sockets. No process is started.
func NewLauncher(cfg Config) (*Launcher, error) {
	if cfg.Tied && cfg.Confine {
		return nil, errdefs.Internalf("plugin host: processes that are confined cannot be tied to this one")
	}
	sealDescriptors()
	stateDir, err := filepath.Abs(cfg.StateDir)
	if err != nil {
		return nil, fmt.Errorf("plugin host: %w", err)
	}
	mode := fs.FileMode(0o700)
	if cfg.Confine {
		mode = 0o711 // each process has a private folder in it
	}
	socketDir, err := socketDirFor(stateDir, mode)
	if err != nil {
		return nil, err
	}
	if cfg.Confine {
		if err := errors.Join(os.MkdirAll(stateDir, 0o711), os.Chmod(stateDir, 0o711)); err != nil {
			return nil, errdefs.FailedPreconditionf("let plugins pass to their sockets: %w", err)
		}
	}
	l := &Launcher{
		cfg: cfg, stateDir: stateDir, socketDir: socketDir, limiter: newLimiter(cfg.Limits, stateDir, cfg.Logger), folders: newFolders(cfg.Env, stateDir),
		profiles: map[string]string{},
	}
	if cfg.Confine {
		if err := l.folders.makeRoot(); err != nil {
			return nil, err
		}
	}
	l.hidden = slices.Concat(cfg.Hidden, []string{stateDir, socketDir, l.folders.root})
	slices.Sort(l.hidden)
	l.hidden = slices.Compact(l.hidden)
	l.Others = newOthers(l)
	return l, nil
}

// SocketDir is the directory of the sockets of all processes.
func (l *Launcher) SocketDir() string { return l.socketDir }

// Mark is an environment variable, as "NAME=directory". The processes of plugins and their
// children, and no others on the machine, have it, with that directory or one below it.
func (l *Launcher) Mark() string { return goplugin.EnvUnixSocketDir + "=" + l.socketDir }

// passedVariables are the variables that a plugin inherits from the agent's
// environment.
var passedVariables = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "SYSTEMROOT", "TEMP", "TMP"}

func (l *Launcher) environment(g *Granted) []string {
	// In addition to our own cookie: a plugin looks for the one with which it was built.
	env := []string{nomadCookieKey + "=" + nomadCookieValue}
	for _, name := range passedVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	if g.RestrictFiles || g.Changes() {
		env = append(env, "HOME="+g.Folder, "TMPDIR="+g.Folder) // it could not use ours
	}
	return append(append(env, l.folders.variable()), l.cfg.Env...)
}

// Launch starts a plugin, shakes hands with it and asks for its Info. If a plugin serves
// another kind than expected, it is started again with the rights for that kind.
func (l *Launcher) Launch(ctx context.Context, f File) (*Process, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	if !l.cfg.Confine {
		return l.launchAs(ctx, f, confine.ProfileDriver)
	}
	profile, known, asked := l.expected(ctx, f)
	p, err := l.launchAs(ctx, f, profile)
	if err != nil || asked {
		return p, err
	}
	if serves := profileOf(p.Info); serves != profile {
		p.out.logger.Debug("the plugin serves another kind than expected, so it is started again with the rights for that kind", "expected", profile, "kind", serves)
		p.Kill()
		if known && serves == confine.ProfileDriver {
			return nil, errdefs.FailedPreconditionf("plugin %s: its versions before were of the kind %s, and this one says that it is a driver, which would give it all rights of the agent; "+
				"if that is meant, set profile = %q in its plugin block", f.Path, profile, serves)
		}
		if profile, p, err = serves, nil, nil; err == nil {
			p, err = l.launchAs(ctx, f, profile)
		}
		if err != nil {
			return nil, err
		}
		if again := profileOf(p.Info); again != profile {
			p.Kill()
			return nil, errdefs.FailedPreconditionf("plugin %s: says first that it is of the kind %s and then %s; install another version", f.Path, profile, again)
		}
	}
	if err := l.remember(ctx, f.Block(), profile); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// launchAs launches a plugin with the rights of a profile.
func (l *Launcher) launchAs(ctx context.Context, f File, profile string) (*Process, error) {
	return whileBusy(ctx, func() (*Process, error) { return l.tryLaunch(ctx, f, profile) })
}

// How often and after what times a busy file is tried again.
const (
	busyTries = 5
	busyPause = 10 * time.Millisecond // it doubles
)

// whileBusy tries a few times to execute a file that is busy. One that was just written may be
// so for a moment: a process that the agent was starting meanwhile has inherited the
// descriptor, until it executes its own program (golang.org/issue/22315).
func whileBusy(ctx context.Context, try func() (*Process, error)) (*Process, error) {
	pause := busyPause
	for n := 1; ; n++ {
		p, err := try()
		if err == nil || !IsBusy(err) || n == busyTries {
			return p, err
		}
		if sleep.For(ctx, pause) != nil {
			return nil, err
		}
		pause *= 2
	}
}

func (l *Launcher) tryLaunch(ctx context.Context, f File, profile string) (*Process, error) {
	granted, err := l.grant(f, profile)
	if err != nil {
		return nil, err
	}
	if _, err := l.folders.prepare(f.Name, granted.Identity); err != nil {
		return nil, err
	}
	if err := l.folders.checkSize(f.Name, granted.StateMB); err != nil {
		return nil, err
	}
	keys, err := newKeyPair()
	if err != nil {
		return nil, err
	}
	p := &Process{File: f, Identity: Identity(f.Binary()), Granted: granted, launcher: l, keys: keys, out: newOutput(l, f.Name), oomKills: l.limiter.kills(f.Name)}
	begin := time.Now()
	if err := p.start(); err != nil {
		took := time.Since(begin)
		if p.client == nil {
			return nil, err
		}
		defer p.removeSocket()
		return nil, l.launchError(f, p.cmd, p.client.endLaunch(p.cmd), p.out.tail, took, err)
	}
	for _, what := range p.Granted.Lacking {
		p.out.logger.Warn("this machine does not enforce all that limits the plugin", "not_enforced", what)
	}
	if err := p.connect(ctx); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// start starts the process and reads its handshake.
func (p *Process) start() error {
	l, f := p.launcher, p.File
	binary, err := filepath.Abs(f.Binary())
	if err != nil {
		return fmt.Errorf("find the plugin: %w", err)
	}
	p.cmd = exec.Command(binary, l.cfg.Args[f.Block()]...)
	p.cmd.Dir = p.Granted.Folder
	detach(p.cmd)
	secure, err := p.keys.config(nil)
	if err != nil {
		return err
	}
	socketDir, err := l.socketFolder()
	if err != nil {
		return err
	}
	p.socketDir = socketDir
	p.client = newClient(goplugin.ClientConfig{
		VersionedPlugins: plugin.ClientSet(nomadProtocol),
		SkipHostEnv:      true,
		StartTimeout:     l.cfg.StartTimeout,
		TLSConfig:        secure,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: l.socketDir},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, longDir string) (runnerapi.Runner, error) {
			_ = os.Remove(longDir) // ours has a shorter name; go-plugin removes this one at the end, too
			p.cmd.Env = append(append(l.environment(&p.Granted), p.keys.variable()), spec.Env...)
			p.cmd.Env = append(p.cmd.Env, goplugin.EnvUnixSocketDir+"="+socketDir)
			if p.Granted.Changes() {
				if err := os.Chown(socketDir, p.Granted.UID, p.Granted.GID); err != nil {
					return nil, fmt.Errorf("give the plugin the folder of its socket: %w", err)
				}
			}
			return newRunner(p.cmd, p.out.stdout, func(cmd *exec.Cmd) error { return p.begin(cmd, socketDir) })
		},
		Stderr: p.out.tail, SyncStdout: p.out.stdout, SyncStderr: p.out.stderr, Logger: p.out.logger,
	})
	addr, err := p.client.Start()
	if err != nil {
		return err
	}
	p.PID, p.version = p.cmd.Process.Pid, p.client.NegotiatedVersion()
	p.client.found(addr, p.PID)
	if secure.RootCAs == nil { // it does not know the variable
		p.keys, p.client.cfg.TLSConfig = nil, nil
	}
	return nil
}

// begin starts the command with its rights and under its limits.
func (p *Process) begin(cmd *exec.Cmd, socketDir string) error {
	limiter, outside := p.launcher.limiter, false
	if p.launcher.cfg.Tied {
		// The thread that starts it stays, so it cannot be born in a cgroup.
		if err := startTied(cmd); err != nil {
			return err
		}
		outside = limiter.groups != nil
	} else {
		born, err := confine.Start(cmd, p.Granted.within(p.File, socketDir), p.Granted.Identity, limiter.birth(p.File.Name))
		if err != nil {
			return err
		}
		outside = born != nil
	}
	limiter.note(p.File.Name, cmd.Process.Pid)
	if outside {
		limiter.hold(p.File.Name, cmd.Process.Pid)
	}
	if err := confine.LimitFiles(cmd.Process.Pid, p.Granted.OpenFiles); err != nil {
		p.Granted.Lacking = append(p.Granted.Lacking, err.Error())
	}
	return nil
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
	if why := l.outdated(ctx, f, rec); why != "" {
		l.cfg.Logger.Info("the plugin's process is replaced: "+why, "plugin", f.Name, "pid", p.PID)
		p.Stop()
		return nil, nil
	}
	return p, nil
}

// outdated returns why a process of an earlier agent must be replaced, or "".
func (l *Launcher) outdated(ctx context.Context, f File, rec *record) string {
	if !slices.Equal(rec.Args, l.cfg.Args[f.Block()]) {
		return "it has other args now"
	}
	profile, _, _ := l.expected(ctx, f)
	now, err := l.grant(f, profile)
	if err != nil || l.cfg.Confine && !rec.Granted.same(&now) {
		return "it may do other things now"
	}
	return ""
}

// adopt connects to a process of an earlier agent; nil if it is gone.
func (l *Launcher) adopt(ctx context.Context, f File, rec record) (*Process, error) {
	out := newOutput(l, f.Name)
	cfg := goplugin.ClientConfig{
		Plugins: plugin.ClientSet(rec.Version)[rec.Version], SyncStdout: out.stdout, SyncStderr: out.stderr, Logger: out.logger,
		Reattach: &goplugin.ReattachConfig{
			Protocol: goplugin.ProtocolGRPC, ProtocolVersion: rec.Version, Pid: rec.PID, Addr: rec.address(),
		},
	}
	if rec.Keys != nil {
		secure, err := rec.Keys.config(rec.Server)
		if err != nil {
			return nil, fmt.Errorf("reattach: %w", err)
		}
		cfg.TLSConfig = secure
	}
	c := newClient(cfg)
	c.found(rec.address(), rec.PID)
	if _, err := c.Start(); err != nil {
		l.endUnreachable(f.Name, rec) // after a reboot there is none
		return nil, nil
	}
	p := &Process{
		File: f, Reattached: true, Identity: rec.Identity, launcher: l, client: c, out: out, version: rec.Version, PID: rec.PID, keys: rec.Keys,
	}
	if rec.Granted != nil {
		p.Granted = *rec.Granted
	}
	l.limiter.limit(f, &p.Granted.Rights)
	l.limiter.note(f.Name, p.PID)
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

// FreeTasks takes the processes of a plugin's tasks out of its limits, if they are settled.
// Only drivers have tasks.
func (l *Launcher) FreeTasks(plugin string, settled func(pid int) bool) {
	l.limiter.freeTasks(plugin, settled)
}

// Release removes the limits of a plugin that is gone.
func (l *Launcher) Release(name string) { l.limiter.release(name) }
