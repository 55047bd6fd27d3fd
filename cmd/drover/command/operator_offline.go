// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/local"
	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/state"
)

// below returns the directory with the data: dir itself, or its place in an agent's
// data directory if dir is one.
func below(dir string, path ...string) string {
	for _, p := range path {
		if _, err := os.Stat(filepath.Join(dir, p)); err == nil {
			dir = filepath.Join(dir, p)
		}
	}
	return dir
}

// withLog opens the log of a server that is not running.
func withLog(dir string, do func(*consensus.Log) error) error {
	l, err := consensus.OpenLog(below(dir, "server", "raft"))
	if err != nil {
		return err
	}
	return errors.Join(do(l), l.Close())
}

func raftInfo() spec {
	return spec{
		usage: "operator raft info <path to data dir>", synopsis: "Shows a summary of a stopped server's raft log", min: 1, max: 1, offline: true, takes: takesFiles,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, args []string) error {
				return withLog(args[0], func(l *consensus.Log) error {
					info, err := l.Info()
					if err != nil {
						return err
					}
					count := uint64(0)
					if info.Last > 0 {
						count = info.Last - info.First + 1
					}
					s.pairs("Path", below(args[0], "server", "raft"), "Length", text(count), "First Index", text(info.First), "Last Index", text(info.Last), "Current Term", text(info.Term))
					return nil
				})
			}
		},
	}
}

func raftLogs() spec {
	return spec{
		usage: "operator raft logs <path to data dir>", synopsis: "Prints the entries of a stopped server's raft log as JSON, one per line", min: 1, max: 1, offline: true, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			pretty := fs.Bool("pretty", false, "Indents the JSON.")
			return func(_ context.Context, s *session, args []string) error {
				enc := json.NewEncoder(s.Out)
				if *pretty {
					enc.SetIndent("", "    ")
				}
				return withLog(args[0], func(l *consensus.Log) error {
					info, err := l.Info()
					if err != nil {
						return err
					}
					return l.Entries(info.First, info.Last, func(e consensus.LogEntry) error { return enc.Encode(readable(e)) })
				})
			}
		},
	}
}

// logLine is the printed form of a log entry.
type logLine struct {
	Index, Term          uint64
	LogType, CommandType string `json:",omitempty"`
	Body                 any    `json:",omitempty"`
	Error                string `json:",omitempty"`
}

func readable(e consensus.LogEntry) logLine {
	out := logLine{Index: e.Index, Term: e.Term, LogType: e.Type}
	if e.Type != "LogCommand" {
		return out
	}
	command, err := fsm.Decode(e.Data)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.CommandType = fmt.Sprintf("%T", command)[len("*fsm."):]
	if out.Body, err = withoutSecrets(command); err != nil {
		out.Error = err.Error()
	}
	return out
}

// withoutSecrets returns v as JSON values, without the secrets of nodes and of lock
// holders.
func withoutSecrets(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	dropSecrets(out)
	return out, nil
}

func dropSecrets(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "SecretID")
		delete(v, "LockID")
		for _, e := range v {
			dropSecrets(e)
		}
	case []any:
		for _, e := range v {
			dropSecrets(e)
		}
	}
}

func raftState() spec {
	return spec{
		usage: "operator raft state <path to data dir>", synopsis: "Prints the state of a stopped server, from its snapshot and raft log, as JSON", min: 1, max: 1, offline: true, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			last := fs.Uint64("last-index", 0, "Shows the state after this log index; the newest by default.")
			return func(_ context.Context, s *session, args []string) error {
				return withLog(args[0], func(l *consensus.Log) error {
					store := state.New()
					if _, err := l.Replay(fsm.New(store, hclog.NewNullLogger()), *last); err != nil {
						return err
					}
					return s.printState(store.View(), "")
				})
			}
		},
	}
}

func snapshotInspect() spec {
	return spec{
		usage: "operator snapshot inspect [options] <file>", synopsis: "Verifies a snapshot file and shows its metadata", min: 1, max: 1, offline: true, output: true, takes: takesFiles,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, args []string) error {
				begin := &start{}
				info, err := extract(args[0], begin)
				if err == nil {
					err = fsm.CheckStart(bytes.NewReader(begin.bytes))
				}
				return s.show(info, err, func() {
					s.pairs("ID", info.ID, "Size", text(info.Size), "Index", text(info.Index), "Term", text(info.Term))
				})
			}
		},
	}
}

// start keeps the beginning of what is written to it.
type start struct{ bytes []byte }

func (s *start) Write(p []byte) (int, error) {
	s.bytes = append(s.bytes, p[:min(len(p), fsm.StartBytes-len(s.bytes))]...)
	return len(p), nil
}

func extract(path string, w io.Writer) (consensus.SnapshotInfo, error) {
	f, err := os.Open(path)
	if err != nil {
		return consensus.SnapshotInfo{}, fmt.Errorf("cannot read the snapshot: %w", err)
	}
	defer f.Close()
	return consensus.ExtractArchive(f, w)
}

func snapshotState() spec {
	return spec{
		usage: "operator snapshot state [options] <file>", synopsis: "Prints the state in a snapshot as JSON", min: 1, max: 1, offline: true, takes: takesFiles,
		setup: func(fs *flag.FlagSet) run {
			filter := fs.String("filter", "", "Shows only objects that match an expression.")
			return func(_ context.Context, s *session, args []string) error {
				store, err := loadSnapshot(args[0])
				if err != nil {
					return err
				}
				return s.printState(store.View(), *filter)
			}
		},
	}
}

// printState prints all tables except those that hold secrets.
func (s *session) printState(v *state.View, filter string) error {
	keep := func(any) bool { return true }
	if filter != "" {
		expr, err := bexpr.CreateEvaluator(filter)
		if err != nil {
			return fmt.Errorf("the expression of -filter is not valid: %w", err)
		}
		keep = func(row any) bool {
			ok, err := expr.Evaluate(row)
			return ok && err == nil // an object without the field does not match
		}
	}
	out, err := withoutSecrets(map[string]any{"Index": v.Index(), "SchedulerConfig": v.SchedulerConfig(),
		"Namespaces": rowsOf(v.Namespaces(), keep), "NodePools": rowsOf(v.NodePools(), keep), "Nodes": rowsOf(v.Nodes(), keep), "Jobs": rowsOf(v.Jobs(""), keep),
		"Evals": rowsOf(v.Evals(), keep), "Allocs": rowsOf(v.Allocs(), keep), "Deployments": rowsOf(v.Deployments(), keep)})
	if err != nil {
		return err
	}
	return s.printJSON(out)
}

func rowsOf[T any](rows iter.Seq[T], keep func(any) bool) []T {
	out := []T{}
	for r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	return out
}

func operatorClientState() spec {
	return spec{
		usage: "operator client-state <path to data dir>", synopsis: "Prints the allocation state that a stopped agent's node has stored, as JSON", min: 1, max: 1, offline: true, takes: takesFiles,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, args []string) error {
				dir := below(args[0], "client", "state")
				if _, err := os.Stat(filepath.Join(dir, "MANIFEST")); errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("%s holds no node state; give the data_dir or the state_dir of an agent", dir)
				}
				store, err := local.Open(dir, hclog.NewNullLogger())
				if err != nil {
					return err
				}
				allocs, err := store.Allocs()
				if err = errors.Join(err, store.Close()); err != nil {
					return err
				}
				return s.printJSON(append([]*alloc.Record{}, allocs...)) // an empty result is printed as [] instead of null
			}
		},
	}
}
