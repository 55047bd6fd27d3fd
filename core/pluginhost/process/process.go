// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"google.golang.org/grpc"

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

	launcher *Launcher
	client   *client
	cmd      *exec.Cmd // nil if reattached
	stderr   *tail
	socket   string // its path; "" if it has none
	oomKills int    // OOM kills in its cgroup when it was started
	version  int    // the negotiated protocol: ours or Nomad's
}

// Foreign reports whether the plugin was built for Nomad.
func (p *Process) Foreign() bool { return p.version == nomadProtocol }

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
	rc := p.client.ReattachConfig()
	if rc == nil {
		return errdefs.Unavailablef("plugin %s: ended during its start", p.File.Path)
	}
	p.PID = rc.Pid
	if rc.Addr.Network() == "unix" {
		p.socket = rc.Addr.String()
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
	info, err := p.ask(ctx)
	if err != nil {
		return errdefs.New(errdefs.ClassOf(err), fmt.Errorf("plugin %s (pid %d): does not say what it is: %w", p.File.Path, p.PID, err))
	}
	p.Info = info
	return nil
}

// Confine puts the process under the limits of its plugin, if the agent may.
func (p *Process) Confine() { p.launcher.limiter.hold(p.File.Name, p.PID) }

// Stop asks the process to end and kills it if it does not.
func (p *Process) Stop() {
	// go-plugin asks without a deadline.
	timer := time.AfterFunc(plugin.ShutdownGrace, p.signalKill)
	defer timer.Stop()
	p.client.end(plugin.ShutdownGrace + endLimit)
	p.removeSocket()
}

// Kill ends the process at once; one that is hung answers no request to end.
func (p *Process) Kill() {
	p.signalKill()
	p.client.end(endLimit)
	p.removeSocket()
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
