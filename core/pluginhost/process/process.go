// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// Process is one running plugin process with a connection to it. Its fields do not
// change.
type Process struct {
	File File
	// Identity is the identity of the file when the process was started.
	Identity   string
	Info       plugin.Info
	PID        int
	Conn       *grpc.ClientConn
	Reattached bool // it was started by an earlier agent
	Granted    Granted

	launcher *Launcher
	client   *client
	cmd      *exec.Cmd // nil if reattached
	out      *output
	keys     *keyPair // certificates for its calls; nil if it knows no certificates
	socket   string   // its path; "" if it has none
	// socketDir is the private folder of the socket; "" if there is none.
	socketDir string
	oomKills  int // OOM kills in its cgroup when it was started
	version   int // the negotiated protocol: ours or Nomad's
}

// Foreign reports whether the plugin was built for Nomad.
func (p *Process) Foreign() bool { return p.version == nomadProtocol }

// introduce tells the plugin who the host is, if its protocol can, and returns its Info.
func (p *Process) introduce(ctx context.Context) (plugin.Info, error) {
	if p.Foreign() {
		return askNomad(ctx, p.Conn)
	}
	return plugin.Introduce(ctx, p.Conn, p.launcher.cfg.Host)
}

// ask returns the plugin's Info. It needs no work of the plugin, so it also checks
// that the plugin answers.
func (p *Process) ask(ctx context.Context) (plugin.Info, error) {
	if p.Foreign() {
		return askNomad(ctx, p.Conn)
	}
	return plugin.Ask(ctx, p.Conn)
}

// connect obtains the connection of a started client and asks for its Info, within the
// start timeout, because a process can accept connections and still be hung.
func (p *Process) connect(ctx context.Context) error {
	if p.client.addr.Network() == "unix" {
		p.socket = p.client.addr.String()
		if dir := filepath.Dir(p.socket); filepath.Dir(dir) == p.launcher.socketDir {
			p.socketDir = dir
		}
	}
	ctx, cancel := context.WithTimeout(ctx, p.launcher.cfg.StartTimeout)
	defer cancel()
	type result struct {
		conn *grpc.ClientConn
		err  error
	}
	// go-plugin's dial takes no context; killing the process ends it.
	dialed := make(chan result, 1)
	go func() {
		protocol, err := p.client.Client.Client()
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
			return errdefs.Unavailablef("plugin %s: cannot connect to it: %w", p.File.Path, r.err)
		}
		p.Conn = r.conn
	case <-ctx.Done():
		return errdefs.DeadlineExceededf("plugin %s (pid %d): does not answer on its socket: %w", p.File.Path, p.PID, ctx.Err())
	}
	info, err := p.introduce(ctx)
	if err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s (pid %d): does not answer Info: %w", p.File.Path, p.PID, err))
	}
	p.Info = info
	return nil
}

// TLS reports whether both sides of the connection prove who they are.
func (p *Process) TLS() bool { return p.keys != nil }

// Socket is the path of its socket; "" if it listens on a port.
func (p *Process) Socket() string { return p.socket }

// Stacks is the file with the stacks that the process wrote when it received SIGQUIT;
// "" if it has not.
func (p *Process) Stacks() string { return p.out.stacksFile() }

// Stop asks the process to end and kills it if it does not.
func (p *Process) Stop() {
	// go-plugin asks without a deadline.
	timer := time.AfterFunc(plugin.ShutdownGrace, p.signalKill)
	defer timer.Stop()
	p.client.end(plugin.ShutdownGrace + endLimit)
	p.clear()
}

// Kill ends the process at once. It is for a hung process, which does not react to a
// request to end.
func (p *Process) Kill() {
	p.out.logger.killed.Store(true)
	p.signalKill()
	p.client.end(endLimit)
	p.clear()
}

// clear removes what is left of the process after its end. If the plugin starts no tasks and
// its children serve no mounts, clear also ends the processes that it has left running.
func (p *Process) clear() {
	p.removeSocket()
	p.out.stacks.close()
	p.launcher.limiter.ended(p.File.Name, p.PID, p.Granted.Profile != "" && p.Granted.Profile != confine.ProfileDriver && p.Granted.Profile != confine.ProfileVolume)
}

func (p *Process) signalKill() {
	if p.PID <= 0 {
		return
	}
	if proc, err := os.FindProcess(p.PID); err == nil {
		_ = proc.Kill() // an error means that it has ended
	}
}

// Leave closes the connection without ending the process.
func (p *Process) Leave() {
	if p.Conn != nil {
		_ = p.Conn.Close() // a second close is its only error
	}
}
