// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// queryWait limits how long a question of a template waits for a change.
	queryWait = 10 * time.Minute
	// listMost limits the answer to a list.
	listMost = 10_000
)

// queryBounds are how long the texts of a question of a template may be.
var queryBounds = model.Bounds{Text: 1024, Total: 4096}

// Variables implements rpc.Servers. A node can read variables only on behalf of a job
// that it runs.
func (d *Dispatcher) Variables(ctx context.Context, id rpc.Identity, q rpc.VariableQuery) (rpc.VariableAnswer, error) {
	if err := queryBounds.Check("VariableQuery", q); err != nil {
		return rpc.VariableAnswer{}, err
	}
	key := state.Key{Table: state.TableVariables}
	if !q.List {
		key.Value = state.VariableKey(q.Namespace, q.Path)
	}
	return repeated(ctx, d, id, waitFor{key: key, since: q.Since, wait: q.Wait}, func() (rpc.VariableAnswer, uint64, error) {
		answer, err := d.variables(id, q)
		return answer, answer.Index, err
	})
}

// waitFor is the condition that ends the wait of a node's question.
type waitFor struct {
	key   state.Key
	since uint64 // index of the node's last answer; 0 if it has none
	wait  time.Duration
}

// repeated looks again at each change of a key, until the answer's index is another than
// the index of the node's last answer or the wait is over.
func repeated[A any](ctx context.Context, d *Dispatcher, id rpc.Identity, w waitFor, look func() (A, uint64, error)) (A, error) {
	wait := max(min(w.wait, queryWait), 0)
	ctx, cancel := context.WithTimeout(ctx, wait+propose.Limit)
	defer cancel()
	d.abreast(ctx, id, w.since)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		watch, stop := context.WithCancel(ctx)
		changed := d.cfg.Store.Watch(watch, w.key)
		answer, index, err := look()
		if err != nil || index != w.since || w.since == 0 {
			stop()
			return answer, err
		}
		select {
		case <-changed:
		case <-timer.C:
			stop()
			return answer, nil
		case <-ctx.Done():
			stop()
			var none A
			return none, ctx.Err()
		}
		stop()
	}
}

func (d *Dispatcher) variables(id rpc.Identity, q rpc.VariableQuery) (rpc.VariableAnswer, error) {
	view := d.cfg.Store.View()
	if _, err := d.known(view, id); err != nil {
		return rpc.VariableAnswer{}, err
	}
	if !runs(view, id.NodeID, q.JobNamespace, q.JobID) {
		return rpc.VariableAnswer{}, errdefs.PermissionDeniedf("node %q runs no alloc of job %q in namespace %q, so it reads no variables for it", id.NodeID, q.JobID, q.JobNamespace)
	}
	if q.List {
		return listVariables(view, q)
	}
	row := view.VariableByPath(q.Namespace, q.Path)
	if row == nil {
		return rpc.VariableAnswer{Index: 1}, nil
	}
	items, err := d.cfg.OpenVariable(view, row)
	if err != nil {
		return rpc.VariableAnswer{}, err
	}
	v := describe(row)
	v.Items = items
	return rpc.VariableAnswer{Index: row.ModifyIndex, Variables: []rpc.Variable{v}}, nil
}

func listVariables(view *state.View, q rpc.VariableQuery) (rpc.VariableAnswer, error) {
	out := rpc.VariableAnswer{Index: max(view.TableIndex(state.TableVariables), 1)}
	for row := range view.Variables(q.Namespace, q.Path) {
		if len(out.Variables) == listMost {
			return out, errdefs.ResourceExhaustedf("more than %d variables begin with %q; ask for a longer prefix", listMost, q.Path)
		}
		out.Variables = append(out.Variables, describe(row))
	}
	return out, nil
}

func describe(row *model.Variable) rpc.Variable {
	return rpc.Variable{
		Namespace: row.Namespace, Path: row.Path, CreateIndex: row.CreateIndex, ModifyIndex: row.ModifyIndex,
		CreateTime: row.CreateTime, ModifyTime: row.ModifyTime,
	}
}

// runs reports whether a live alloc of the job is on the node.
func runs(view *state.View, nodeID, namespace, jobID string) bool {
	for _, a := range view.AllocsByNode(nodeID) {
		if a.Namespace == namespace && a.JobID == jobID && !a.ClientTerminalStatus() {
			return true
		}
	}
	return false
}
