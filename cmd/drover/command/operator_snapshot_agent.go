// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/backup"
	"github.com/drover-project/drover/core/config"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

func snapshotAgent() spec {
	return spec{
		usage: "operator snapshot agent [options] [<config_file>]", synopsis: "Saves snapshots of the servers' state at intervals, to a folder or an S3-compatible store", max: 1, takes: takesFiles,
		help: `Each snapshot is verified after it was stored, and the oldest are removed. The store is the
only memory: an agent that was killed goes on where it was, and several with one store take
turns. Settings are in the file (HCL or JSON); flags override them. Servers can do the same
themselves: see the snapshot block in docs/configuration.md. Without a store, snapshots are
written to the current directory. With an interval of 0 one snapshot is saved.`,
		setup: func(fs *flag.FlagSet) run {
			flags := declareSnapshotFlags(fs)
			stale := fs.Bool("stale", false, "Lets any server answer, even without a leader; the snapshots may be stale.")
			return func(ctx context.Context, s *session, args []string) error {
				cfg, err := flags.load(s, args)
				if err != nil {
					return err
				}
				if *stale {
					cfg.Snapshot.Stale = true
				}
				level := hclog.LevelFromString(cmp.Or(cfg.Log.Level, "INFO"))
				if level == hclog.NoLevel {
					return errdefs.InvalidArgumentf("log.level %q is none of trace, debug, info, warn, error", cfg.Log.Level)
				}
				log := hclog.New(&hclog.LoggerOptions{Name: "snapshots", Level: level, Output: s.Err})
				agent, err := s.newSnapshotAgent(cfg, log)
				if err != nil {
					return err
				}
				if cfg.Snapshot.Every() == 0 {
					kept, err := agent.Once(ctx)
					if err != nil {
						return err
					}
					s.printf("Saved snapshot %s", kept.Name)
					return nil
				}
				now := agent.Status()
				s.printf("Saving a snapshot to %s each %s", now.Store, now.Interval)
				agent.Run(ctx) // ends when the process gets a signal, which is not an error
				return nil
			}
		},
	}
}

// snapshotFlags are flags that override the file of the agent.
type snapshotFlags struct {
	set                            *flag.FlagSet
	interval, retain, prefix, path string
}

func declareSnapshotFlags(fs *flag.FlagSet) *snapshotFlags {
	f := &snapshotFlags{set: fs}
	fs.StringVar(&f.interval, "interval", "", "Time between two snapshots, such as 30m; 0 means a single one. 1h by default.")
	fs.StringVar(&f.retain, "retain", "", "Number of snapshots to keep; 0 means all. 30 by default.")
	fs.StringVar(&f.prefix, "prefix", "", "Beginning of the names of the snapshots; files with other names are left alone. drover by default.")
	fs.StringVar(&f.path, "path", "", "Folder of the snapshots.")
	return f
}

// load reads the file, if there is one, and applies the flags.
func (f *snapshotFlags) load(s *session, args []string) (*config.SnapshotAgent, error) {
	cfg := &config.SnapshotAgent{}
	if len(args) == 1 {
		var err error
		if cfg, err = config.LoadSnapshotAgent(args[0]); err != nil {
			return nil, err
		}
	}
	warn := s.warnOnce()
	for _, w := range cfg.Warnings {
		warn(w)
	}
	if f.interval != "" {
		cfg.Snapshot.Interval = f.interval
	}
	if f.prefix != "" {
		cfg.Snapshot.Prefix = f.prefix
	}
	if f.retain != "" {
		n, err := strconv.Atoi(f.retain)
		if err != nil {
			return nil, errdefs.InvalidArgumentf("-retain %q is not a number", f.retain)
		}
		cfg.Snapshot.Retain = &n
	}
	if f.path != "" {
		if cfg.Snapshot.AWS != nil {
			return nil, errors.New("-path names a folder, and the file has aws_storage: use one of them")
		}
		cfg.Snapshot.Local = &config.LocalStorage{Path: f.path}
	}
	if err := cfg.Finish(); err != nil {
		return nil, err
	}
	return cfg, f.connect(s, cfg.Servers)
}

// connect connects the session with the settings of the file, which flags override.
func (f *snapshotFlags) connect(s *session, to config.SnapshotServers) error {
	given := map[string]bool{}
	f.set.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for _, v := range []struct {
		flag, value string
		field       *string
	}{
		{"address", to.Address, &s.cfg.Address}, {"token", to.Token, &s.cfg.Token}, {"region", to.Region, &s.cfg.Region},
		{"ca-cert", to.CAFile, &s.cfg.CACert}, {"ca-path", to.CAPath, &s.cfg.CAPath}, {"client-cert", to.CertFile, &s.cfg.ClientCert},
		{"client-key", to.KeyFile, &s.cfg.ClientKey}, {"tls-server-name", to.TLSServerName, &s.cfg.TLSServerName},
	} {
		if v.value != "" && !given[v.flag] {
			*v.field = v.value
		}
	}
	var err error
	s.client, err = client.New(s.cfg)
	return err
}

// newSnapshotAgent returns an agent that asks the servers for snapshots.
func (s *session) newSnapshotAgent(cfg *config.SnapshotAgent, log hclog.Logger) (*backup.Agent, error) {
	store, err := cfg.Snapshot.Store("")
	if err != nil {
		return nil, err
	}
	return backup.New(backup.Config{
		Interval: cfg.Snapshot.Every(), Retain: cfg.Snapshot.Keep(), Prefix: cfg.Snapshot.NamePrefix(), Store: store, Now: time.Now, Logger: log,
		Take: func(ctx context.Context) (*backup.Snapshot, error) {
			answer, err := s.client.SaveSnapshot(ctx, cfg.Snapshot.Stale)
			if err != nil {
				return nil, err
			}
			return &backup.Snapshot{ReadCloser: answer.Body, Digest: answer.Header.Get("Digest")}, nil
		},
		Verify: func(r io.Reader) (uint64, error) {
			info, err := consensus.InspectArchive(r)
			return info.Index, err
		},
	}), nil
}

func snapshotStatus() spec {
	return spec{
		usage: "operator snapshot status [options] [<config_file>]", synopsis: "Shows the stored snapshots, the last failure and when the next snapshot is due", max: 1, takes: takesFiles, output: true,
		help: `Without a file it asks the leader for the snapshots of its configuration's snapshot block. With
the file of "operator snapshot agent", or -path, it lists the store; what that agent last did
is in the agent's own log. The exit code is 1 if the last attempt to store a snapshot or to
remove old ones failed, or if the newest is older than two intervals.`,
		setup: func(fs *flag.FlagSet) run {
			flags := declareSnapshotFlags(fs)
			return func(ctx context.Context, s *session, args []string) error {
				status, err := s.scheduled(ctx, flags, args)
				if err := s.show(status, err, func() { s.printSchedule(status, len(args) == 0 && flags.path == "") }); err != nil {
					return err
				}
				if overdue(status) {
					return &exitCode{code: exitError}
				}
				return nil
			}
		},
	}
}

// scheduled asks the leader, or the store if a file or a folder is named.
func (s *session) scheduled(ctx context.Context, flags *snapshotFlags, args []string) (*backup.Status, error) {
	if len(args) == 0 && flags.path == "" {
		return s.client.SnapshotSchedule(ctx)
	}
	cfg, err := flags.load(s, args)
	if err != nil {
		return nil, err
	}
	agent, err := s.newSnapshotAgent(cfg, hclog.NewNullLogger())
	if err != nil {
		return nil, err
	}
	status, err := agent.Look(ctx)
	return &status, err
}

// overdue reports whether snapshots or the removal of old ones fail, or none was taken for
// two intervals.
func overdue(st *backup.Status) bool {
	if st.LastError != "" || len(st.Snapshots) == 0 {
		return true
	}
	age := time.Since(st.Snapshots[len(st.Snapshots)-1].Time)
	return st.Interval > 0 && (age > 2*st.Interval || age < -st.Interval) // those from the future are last only if there are no others
}

// printSchedule prints the status of an agent, or what a store shows of it: what the agent has
// done and what failed is not known then.
func (s *session) printSchedule(st *backup.Status, known bool) {
	retain, next := strconv.Itoa(st.Retain), when(st.Next.Local())
	if st.Retain == 0 {
		retain = "all"
	}
	if st.Next.IsZero() {
		next = "N/A"
	}
	lines := []string{"Store", st.Store, "Interval", st.Interval.String(), "Retain", retain, "Next", next}
	if known {
		lines = append(lines, "Taken", text(st.Taken), "Failed", text(st.Failed), "Failures Since Success", text(st.Failures), "Last Error", st.LastError)
	}
	s.pairs(lines...)
	s.printf("")
	var rows [][]string
	for _, x := range st.Snapshots {
		rows = append(rows, []string{x.Name, when(x.Time.Local()), text(x.Size)})
	}
	s.tableOr("No snapshots", []string{"Name", "Taken", "Bytes"}, rows)
}
