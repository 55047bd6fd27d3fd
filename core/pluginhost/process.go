// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// process is one running plugin process with a connection to it.
type process struct {
	host       *Host
	file       file
	cmd        *exec.Cmd // nil if reattached
	stderr     *tail
	client     *goplugin.Client
	dials      *dials
	conn       *grpc.ClientConn
	pid        int
	socket     string // its path; "" if it has none
	info       plugin.Info
	reattached bool
	oomKills   int // OOM kills in its cgroup when it was started
	// version is the negotiated protocol: ours or Nomad's.
	version int
	// identity is the identity of the file when the process was started.
	identity string
}

// foreign reports whether the plugin was built for Nomad.
func (p *process) foreign() bool { return p.version == nomadProtocol }

// ask returns the plugin's Info. It needs no work of the plugin, so it also checks
// that the plugin answers.
func (p *process) ask(ctx context.Context) (plugin.Info, error) {
	if p.foreign() {
		return askNomad(ctx, p.conn)
	}
	return plugin.Ask(ctx, p.conn)
}

// record is what the store keeps about a process.
type record struct {
	PID      int
	Network  string
	Address  string
	Identity string
	Version  int // of the protocol
	// Started distinguishes the process from a later one with the same PID; "" if the
	// system does not report it.
	Started string
	Args    []string `json:",omitempty"`
}

// passedVariables are the variables that a plugin inherits from the agent's
// environment.
var passedVariables = []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ", "SYSTEMROOT", "TEMP", "TMP"}

func (h *Host) environment() []string {
	env := []string{
		goplugin.EnvUnixSocketDir + "=" + h.socketDir,
		// In addition to our own cookie: a plugin looks for the one with which it was
		// built.
		nomadCookieKey + "=" + nomadCookieValue,
	}
	for _, name := range passedVariables {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, h.cfg.Env...)
}

// launch starts the plugin and shakes hands with it.
func (h *Host) launch(ctx context.Context, f file) (*process, error) {
	if err := checkFile(f); err != nil {
		return nil, err
	}
	cmd, oomKills := exec.Command(f.binary(), h.cfg.Args[f.name]...), h.limiter.kills(f.name)
	cmd.Env = h.environment()
	detach(cmd)
	stderr, dials := &tail{}, &dials{}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		VersionedPlugins: plugin.ClientSet(nomadProtocol),
		Cmd:              cmd,
		SkipHostEnv:      true,
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		StartTimeout:     h.cfg.StartTimeout,
		Stderr:           stderr,
		GRPCDialOptions:  append(plugin.DialOptions(), dials.option()),
		Logger:           h.clientLogger(f.name),
	})
	begin, id := time.Now(), identity(f.binary())
	if _, err := client.Start(); err != nil {
		took := time.Since(begin)
		return nil, h.launchError(f, cmd, endLaunch(client, dials, cmd), stderr, took, err)
	}
	p := &process{
		host: h, file: f, cmd: cmd, stderr: stderr, client: client, dials: dials, version: client.NegotiatedVersion(), identity: id, oomKills: oomKills,
	}
	if err := h.connect(ctx, p); err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

func (h *Host) clientLogger(name string) hclog.Logger {
	return newPlainLogger(h.cfg.Logger.Named(name))
}

// connect obtains the connection of a started client and asks for its Info, within the
// start timeout, because a process can accept connections and still be hung.
func (h *Host) connect(ctx context.Context, p *process) error {
	rc := p.client.ReattachConfig()
	if rc == nil {
		return errdefs.Unavailablef("plugin %s: ended during its start", p.file.path)
	}
	p.pid = rc.Pid
	if rc.Addr.Network() == "unix" {
		p.socket = rc.Addr.String()
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.StartTimeout)
	defer cancel()
	type result struct {
		conn *grpc.ClientConn
		err  error
	}
	// go-plugin's dial takes no context; killing the process ends it.
	dialed := make(chan result, 1)
	go func() {
		protocol, err := p.client.Client()
		if err != nil {
			dialed <- result{err: err}
			return
		}
		conn, err := plugin.Connection(protocol)
		dialed <- result{conn, err}
	}()
	select {
	case r := <-dialed:
		if r.err != nil {
			return errdefs.Unavailablef("plugin %s: cannot connect to it: %w", p.file.path, r.err)
		}
		p.conn = r.conn
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("plugin %s (pid %d): does not answer on its socket: %w", p.file.path, p.pid, ctx.Err())
	}
	info, err := p.ask(ctx)
	if err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s (pid %d): does not say what it is: %w", p.file.path, p.pid, err))
	}
	p.info = info
	return nil
}

// reattach finds the process of an earlier host, if it still runs the current file. A
// process of a replaced file is ended: the new one recovers its tasks.
func (h *Host) reattach(ctx context.Context, f file) (*process, error) {
	rec, err := h.recorded(ctx, f.name)
	if rec == nil || err != nil {
		return nil, err
	}
	p, err := h.adopt(ctx, f, *rec)
	if p == nil || err != nil {
		return nil, err
	}
	if rec.Identity != identity(f.binary()) {
		h.cfg.Logger.Info("the plugin's file was replaced, so its process is", "plugin", f.name, "pid", p.pid)
		p.stop()
		return nil, nil
	}
	if !slices.Equal(rec.Args, h.cfg.Args[f.name]) {
		h.cfg.Logger.Info("the plugin has other args now, so its process is replaced", "plugin", f.name, "pid", p.pid)
		p.stop()
		return nil, nil
	}
	return p, nil
}

// recorded returns the stored record of the current process; nil if there is none.
func (h *Host) recorded(ctx context.Context, name string) (*record, error) {
	if h.cfg.Store == nil {
		return nil, nil
	}
	body, err := h.cfg.Store.Get(ctx, storeKey(name))
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what is known of the plugin process: %w", err)
	}
	rec := &record{}
	if err := json.Unmarshal(body, rec); err != nil {
		return nil, fmt.Errorf("decode what is known of the plugin process: %w", err)
	}
	if rec.Version == 0 { // of an agent that knew one protocol only
		rec.Version = plugin.ProtocolVersion
	}
	return rec, nil
}

// adopt connects to a process of an earlier host; nil if it is gone.
func (h *Host) adopt(ctx context.Context, f file, rec record) (*process, error) {
	dials := &dials{}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  plugin.Handshake(),
		Plugins:          plugin.ClientSet(rec.Version)[rec.Version],
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		Logger:           h.clientLogger(f.name),
		GRPCDialOptions:  append(plugin.DialOptions(), dials.option()),
		Reattach: &goplugin.ReattachConfig{
			Protocol: goplugin.ProtocolGRPC, ProtocolVersion: rec.Version, Pid: rec.PID, Addr: address(rec),
		},
	})
	if _, err := client.Start(); err != nil {
		h.endUnreachable(f.name, rec) // after a reboot there is none
		return nil, nil
	}
	p := &process{host: h, file: f, stderr: &tail{}, client: client, dials: dials, reattached: true, version: rec.Version, identity: rec.Identity}
	if err := h.connect(ctx, p); err != nil {
		p.kill()
		return nil, fmt.Errorf("reattach: %w", err)
	}
	return p, nil
}

// endLeft ends a process of an earlier host that serves nothing.
func (h *Host) endLeft(name string, rec record) {
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.StartTimeout)
	defer cancel()
	p, err := h.adopt(ctx, file{name: name}, rec)
	if err != nil {
		h.cfg.Logger.Warn("a plugin process of an agent before did not answer and was killed", "plugin", name, "pid", rec.PID, "error", err)
	}
	if p != nil {
		h.cfg.Logger.Info("a plugin process that an agent left and that serves nothing any more is ended", "plugin", name, "pid", p.pid)
		p.stop()
	}
}

func address(rec record) net.Addr {
	if rec.Network == "unix" {
		return &net.UnixAddr{Net: "unix", Name: rec.Address}
	}
	addr, err := net.ResolveTCPAddr("tcp", rec.Address)
	if err != nil {
		return &net.TCPAddr{}
	}
	return addr
}

// recordOf returns the record by which the next host finds the process.
func recordOf(p *process) (record, bool) {
	rc := p.client.ReattachConfig()
	if rc == nil {
		return record{}, false
	}
	return record{PID: rc.Pid, Network: rc.Addr.Network(), Address: rc.Addr.String(), Identity: p.identity, Version: p.version, Started: startOf(rc.Pid), Args: p.host.cfg.Args[p.file.name]}, true
}

// save stores the process for the next host.
func (h *Host) save(ctx context.Context, p *process) error {
	rec, ok := recordOf(p)
	if h.cfg.Store == nil || !ok {
		return nil
	}
	body, err := json.Marshal(rec)
	if err != nil {
		return fmt.Errorf("encode what is known of the plugin process: %w", err)
	}
	if err := h.cfg.Store.Put(ctx, storeKey(p.file.name), body); err != nil {
		return fmt.Errorf("keep what is known of the plugin process: %w", err)
	}
	return nil
}

// stop asks the process to end and kills it if it does not.
func (p *process) stop() {
	// go-plugin asks without a deadline.
	timer := time.AfterFunc(plugin.ShutdownGrace, p.signalKill)
	defer timer.Stop()
	end(p.client, p.dials, plugin.ShutdownGrace+endLimit)
	p.removeSocket()
}

// kill ends the process at once; one that is hung answers no request to end.
func (p *process) kill() {
	p.signalKill()
	end(p.client, p.dials, endLimit)
	p.removeSocket()
}

// endLimit is how long the end of a killed process is awaited.
const endLimit = 2 * time.Second

// end makes go-plugin end a process, and reports whether it has ended within the
// limit. go-plugin also waits until nobody has the process's outputs open, which may
// be the plugin's tasks; it continues to wait in the background.
func end(client *goplugin.Client, dials *dials, limit time.Duration) bool {
	defer dials.close()
	ended := make(chan struct{})
	go func() { client.Kill(); close(ended) }()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-ended:
		return true
	case <-late.C:
		return false
	}
}

// endLaunch ends a process that failed to start, with its children, and returns its
// exit state; nil if that is unknown.
func endLaunch(client *goplugin.Client, dials *dials, cmd *exec.Cmd) *os.ProcessState {
	if cmd.Process != nil {
		killSession(cmd.Process.Pid)
	}
	if !end(client, dials, endLimit) {
		return nil
	}
	return cmd.ProcessState
}

func (p *process) signalKill() {
	if p.pid <= 0 {
		return
	}
	if proc, err := os.FindProcess(p.pid); err == nil {
		_ = proc.Kill() // an error means that it has ended
	}
}

// leave closes the connection without ending the process.
func (p *process) leave() {
	if p.conn != nil {
		_ = p.conn.Close() // a second close is its only error
	}
}

// forgetProcess removes the record of a process that has ended.
func (h *Host) forgetProcess(name string) {
	if h.cfg.Store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := h.cfg.Store.Delete(ctx, storeKey(name)); err != nil && !errdefs.IsNotFound(err) {
		h.cfg.Logger.Warn("cannot forget an ended plugin process", "plugin", name, "error", err)
	}
}
