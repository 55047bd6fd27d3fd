// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/simulate"
	"github.com/drover-project/drover/core/state"
)

func operatorSimulate() spec {
	return spec{
		usage: "operator simulate [options] <snapshot>", synopsis: "Plays what would happen to a cluster, on a saved snapshot", min: 1, max: 1, offline: true, output: true, takes: takesFiles,
		help: "It runs the scheduler on the state in the snapshot and shows where everything would run and what\nwould not fit, and which groups their dependencies hold back. No cluster is asked or changed.\nWithout options every job is evaluated as it is.\nTasks are not played: what is stopped has ended at once, a roll-out goes as far as its first\nallocations, and what starts does not meet a dependency.\n\nExit codes: 0 if everything fits, 2 if the change leaves allocations without a place, 1 on an error.",
		setup: func(fs *flag.FlagSet) run {
			down := lists(fs, "node-down", "This node vanishes; its id, the beginning of it, or its name.")
			drain := lists(fs, "drain", "This node drains.")
			counts := keyValues{}
			fs.Var(counts, "count", "Another count, as JOB/GROUP=N or NAMESPACE/JOB/GROUP=N. May be given several times.")
			return func(ctx context.Context, s *session, args []string) error {
				store, err := loadSnapshot(args[0])
				if err != nil {
					return err
				}
				change, err := changeOf(store.View(), *down, *drain, counts)
				if err != nil {
					return err
				}
				r, err := simulate.Run(ctx, store, change, time.Now())
				if err := s.show(r, err, func() { s.simulated(r) }); err != nil {
					return err
				}
				if slices.ContainsFunc(r.Unplaced, func(u *simulate.Unplaced) bool { return u.Missing > u.Before }) {
					return &exitCode{code: 2}
				}
				return nil
			}
		},
	}
}

// loadSnapshot returns the state in a snapshot file.
func loadSnapshot(path string) (*state.Store, error) {
	tmp, err := os.CreateTemp("", "drover-snapshot-*")
	if err != nil {
		return nil, fmt.Errorf("unpack the snapshot: %w", err)
	}
	defer os.Remove(tmp.Name()) // a leftover temporary file does no harm
	defer tmp.Close()
	if _, err := extract(path, tmp); err != nil {
		return nil, err
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("unpack the snapshot: %w", err)
	}
	store := state.New()
	return store, fsm.Load(fsm.Level, store, tmp)
}

// changeOf reads the options of a simulation.
func changeOf(v *state.View, down, drain []string, counts keyValues) (c simulate.Change, err error) {
	for _, nodes := range []struct {
		from []string
		to   *[]string
	}{{down, &c.NodesDown}, {drain, &c.NodesDraining}} {
		for _, name := range nodes.from {
			id, err := nodeIn(v, name)
			if err != nil {
				return c, err
			}
			*nodes.to = append(*nodes.to, id)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		n, err := strconv.Atoi(counts[path])
		job, group, ok := cutLast(path)
		if err != nil || !ok {
			return c, fmt.Errorf("-count %s=%s: give a job, its group and a count, such as web/api=3", path, counts[path])
		}
		key := model.JobKey{Namespace: "default", ID: job}
		if ns, id, has := strings.Cut(job, "/"); has && v.JobByID("default", job) == nil {
			key = model.JobKey{Namespace: ns, ID: id}
		}
		c.Counts = append(c.Counts, simulate.Count{Job: key, Group: group, Count: n})
	}
	return c, nil
}

// cutLast cuts a path at its last slash: ids of jobs may contain some.
func cutLast(path string) (job, group string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 || i == len(path)-1 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// nodeIn finds a node of a snapshot by its id, the beginning of it, or its name.
func nodeIn(v *state.View, name string) (string, error) {
	var found []candidate
	for n := range v.Nodes() {
		switch {
		case n.ID == name:
			return n.ID, nil
		case n.Name == name || strings.HasPrefix(n.ID, name):
			found = append(found, candidate{n.ID, n.Name + ", " + n.Status})
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("the snapshot has no node %q", name)
	case 1:
		return found[0].id, nil
	}
	return "", ambiguous("node", name, found)
}

// simulated shows what came of a simulation.
func (s *session) simulated(r *simulate.Result) {
	s.printf("%d evaluations: %d allocations would start, %d would stop", r.Evaluations, len(r.Starts), r.Stops)
	if len(r.Starts) > 0 {
		type place struct{ namespace, job, group, from, id, to string }
		counts := map[place]int{}
		for _, a := range r.Starts {
			counts[place{a.Namespace, a.Job, a.Group, a.From, a.NodeID, a.NodeName}]++
		}
		s.title("\nWhere allocations would start")
		var rows [][]string
		for _, p := range slices.SortedFunc(maps.Keys(counts), func(a, b place) int {
			return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.job, b.job), cmp.Compare(a.group, b.group), cmp.Compare(a.to, b.to), cmp.Compare(a.id, b.id), cmp.Compare(a.from, b.from))
		}) {
			rows = append(rows, []string{p.namespace, p.job, p.group, p.from, p.to, s.id(p.id), text(counts[p])})
		}
		s.table([]string{"Namespace", "Job ID", "Task Group", "From", "To", "Node ID", "Allocations"}, rows)
	}
	s.title("\nWithout a place")
	var rows [][]string
	for _, u := range r.Unplaced {
		rows = append(rows, []string{u.Namespace, u.Job, u.Group, text(u.Missing), text(u.Before), strings.Join(metricLines(u.Metric), "; ")})
	}
	s.tableOr("Everything fits", []string{"Namespace", "Job ID", "Task Group", "Missing", "Before", "Why"}, rows)
	if len(r.Held) == 0 {
		return
	}
	s.title("\nHeld back by dependencies")
	rows = nil
	for _, h := range r.Held {
		rows = append(rows, []string{h.Namespace, h.Job, h.Group, text(h.Hold.Allocs), h.Hold.Say(time.Now())})
	}
	s.table([]string{"Namespace", "Job ID", "Task Group", "Allocations", "Why"}, rows)
}
