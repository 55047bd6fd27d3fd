// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/shirou/gopsutil/v4/disk"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/connlimit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Identity returns the names and addresses of this agent.
func (d *Daemon) Identity() api.Identity {
	out := api.Identity{NodeID: d.localNode()}
	if d.server != nil {
		out.ServerID, out.ServerName = d.server.ID(), d.serverName()
	}
	return out
}

// maxHostFile is the number of bytes read of a file that describes the host.
const maxHostFile = 64 << 10

// Host describes the machine.
func (d *Daemon) Host(ctx context.Context) (*api.HostReport, error) {
	data := api.HostData{
		OS: runtime.GOOS + " " + runtime.GOARCH, Network: []map[string]string{}, Environment: map[string]string{}, Disk: map[string]api.DiskUsage{},
		ResolvConf: hostFile("/etc/resolv.conf"), Hosts: hostFile("/etc/hosts"),
	}
	if out, err := exec.CommandContext(ctx, "uname", "-a").Output(); err == nil {
		data.OS = strings.TrimSpace(string(out))
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, fmt.Errorf("list the network interfaces: %w", err)
	}
	for _, link := range links {
		addrs, err := link.Addrs()
		if err != nil {
			continue // it was unmounted or removed meanwhile
		}
		for _, a := range addrs {
			data.Network = append(data.Network, map[string]string{"name": link.Name, "address": a.String()})
		}
	}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		data.Environment[name] = masked(name, value)
	}
	parts, err := disk.PartitionsWithContext(ctx, false)
	if err != nil {
		return nil, fmt.Errorf("list the file systems: %w", err)
	}
	for _, p := range parts {
		if u, err := disk.UsageWithContext(ctx, p.Mountpoint); err == nil {
			data.Disk[p.Mountpoint] = api.DiskUsage{DiskMB: int64(u.Total >> 20), UsedMB: int64(u.Used >> 20)}
		}
	}
	id := d.localNode()
	if id == "" {
		id = d.server.ID()
	}
	return &api.HostReport{AgentID: id, HostData: data}, nil
}

// masked hides the value of an environment variable whose name looks like the name
// of a secret.
func masked(name, value string) string {
	upper := strings.ToUpper(name)
	for _, word := range []string{"TOKEN", "SECRET", "PASSWORD", "PASSWD", "KEY", "LICENSE", "CREDENTIAL", "AUTH"} {
		if strings.Contains(upper, word) && value != "" {
			return "<redacted>"
		}
	}
	return value
}

// hostFile returns the beginning of a file, or "" if the file cannot be read.
func hostFile(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxHostFile))
	if err != nil {
		return ""
	}
	return string(b)
}

// Reload reads the configuration again, as SIGHUP does.
func (d *Daemon) Reload(context.Context) error {
	if d.reload == nil {
		return errdefs.Unimplementedf("this agent was started without configuration files, so there is nothing to reload")
	}
	return d.reload()
}

// Schedulers returns the scheduler workers of this server.
func (d *Daemon) Schedulers() *api.SchedulerWorkers {
	running, wanted := d.server.Workers().Running()
	out := &api.SchedulerWorkers{ServerID: d.server.ID(), Wanted: wanted, Schedulers: []api.SchedulerWorker{}}
	for _, w := range running {
		out.Schedulers = append(out.Schedulers, api.SchedulerWorker{
			ID: w.ID, EnabledSchedulers: api.EnabledSchedulers, Started: w.Started.UTC().Format(time.RFC3339Nano),
			Status: "Started", WorkloadStatus: "WaitingToDequeue",
		})
	}
	return out
}

// SetSchedulers changes the number of scheduler workers.
func (d *Daemon) SetSchedulers(_ context.Context, count int) error {
	return d.server.Workers().Set(count)
}

// SaveSnapshot writes the state of the cluster to an archive.
func (d *Daemon) SaveSnapshot(ctx context.Context) (*api.Snapshot, error) {
	return d.server.Snapshots().Save(ctx)
}

// StateDigest returns the digest of this server's state.
func (d *Daemon) StateDigest(ctx context.Context) (*api.StateDigest, error) {
	return d.server.Snapshots().Digest(ctx)
}

// SnapshotSchedule returns the results of the scheduled snapshots.
func (d *Daemon) SnapshotSchedule() (*backup.Status, error) { return d.server.SnapshotSchedule() }

// RestoreSnapshot replaces the state of the cluster with an archive.
func (d *Daemon) RestoreSnapshot(ctx context.Context, r io.Reader) error {
	return d.server.Snapshots().Restore(ctx, r)
}

// Monitor streams log lines of at least the requested level until ctx ends. It calls
// began once it listens, so no line after that is missed. If the reader is too slow,
// lines are dropped; the agent never waits for it.
func (d *Daemon) Monitor(ctx context.Context, req *api.MonitorRequest, began func() error, line func([]byte) error) error {
	at := hclog.LevelFromString(req.Level)
	if at == hclog.NoLevel {
		return errdefs.InvalidArgumentf("Unknown log level: %s", req.Level)
	}
	lines := make(lineQueue, 512)
	sink := hclog.NewSinkAdapter(&hclog.LoggerOptions{Level: at, Output: lines, JSONFormat: req.JSON, IncludeLocation: req.IncludeLocation})
	d.log.RegisterSink(sink)
	defer d.log.DeregisterSink(sink)
	if err := began(); err != nil {
		return err
	}
	for {
		select {
		case b := <-lines:
			if err := line(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lineQueue is a writer that drops lines when the queue is full.
type lineQueue chan []byte

// Write queues a copy of the line.
func (q lineQueue) Write(p []byte) (int, error) {
	select {
	case q <- append([]byte(nil), p...):
	default:
	}
	return len(p), nil
}

// exportPiece is the number of bytes of a log that are sent at once.
const exportPiece = 64 << 10

// ExportLogs streams the agent's log file, or the journal of a systemd service.
func (d *Daemon) ExportLogs(ctx context.Context, req *api.ExportRequest, send func([]byte) error) error {
	if req.OnDisk {
		return d.exportFile(ctx, send)
	}
	return exportJournal(ctx, req, send)
}

func (d *Daemon) exportFile(ctx context.Context, send func([]byte) error) error {
	path := d.log.File()
	if path == "" {
		return errdefs.FailedPreconditionf("this agent writes no log file: set log_file, or ask for service_name")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errdefs.NotFoundf("the log file %s is gone", path)
	}
	if err != nil {
		return fmt.Errorf("open the log file: %w", err)
	}
	defer f.Close()
	return sendAll(ctx, f, send)
}

func sendAll(ctx context.Context, r io.Reader, send func([]byte) error) error {
	buf := make([]byte, exportPiece)
	for ctx.Err() == nil {
		n, err := r.Read(buf)
		if n > 0 {
			if err := send(buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
	}
	return ctx.Err()
}

// exportJournal runs journalctl, because the journal's file format is not a public
// interface.
func exportJournal(ctx context.Context, req *api.ExportRequest, send func([]byte) error) error {
	if strings.HasPrefix(req.Service, "-") || strings.ContainsAny(req.Service, "*?[ \n") {
		return errdefs.InvalidArgumentf("service_name %q is not a valid name of a systemd unit", req.Service)
	}
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return errdefs.FailedPreconditionf("this machine has no journalctl; ask with on_disk=true for the agent's log file")
	}
	args := []string{"--unit=" + req.Service, "--no-pager", "--quiet"}
	if req.Since > 0 {
		args = append(args, "--since="+time.Now().Add(-req.Since).Format("2006-01-02 15:04:05"))
	}
	if req.Follow {
		args = append(args, "--follow")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	err = sendAll(ctx, bufio.NewReaderSize(out, exportPiece), send)
	if err != nil {
		cancel()
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = errdefs.Internalf("journalctl failed: %w", ended)
	}
	return err
}

// connsPerClient returns the connection limit of a listener. In the configuration 0
// means no limit.
func connsPerClient(limit *int) int {
	switch {
	case limit == nil:
		return connlimit.Default
	case *limit <= 0:
		return -1
	}
	return *limit
}
