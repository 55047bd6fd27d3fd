// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/test/e2e/harness"
)

// patience is how long a client waits for an answer. The outcome of a request that takes
// longer is unknown.
const patience = 1500 * time.Millisecond

// errNothingDone marks a request that was certainly not carried out, which leaves no trace
// in a history.
var errNothingDone = errors.New("nothing was done")

// record is the history of several clients.
type record struct {
	began time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

func (h *record) add(op porcupine.Operation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, op)
}

// user is a client that asks random servers, one request at a time.
type user struct {
	id      int
	name    string
	servers []*harness.Agent
	rng     *rand.Rand
	history *record
	writes  int
	seen    map[string]uint64 // the newest index of each object
	locks   map[string]string // those that it holds
}

// run sends requests until ctx ends.
func (u *user) run(ctx context.Context, objects []string) {
	for ctx.Err() == nil {
		r := u.choose(objects[u.rng.IntN(len(objects))])
		op := porcupine.Operation{ClientId: u.id, Input: r, Call: int64(time.Since(u.history.began))}
		a, err := u.send(u.servers[u.rng.IntN(len(u.servers))], r)
		op.Return = int64(time.Since(u.history.began))
		switch {
		case errors.Is(err, errNothingDone), err != nil && r.verb == read:
			continue
		case err != nil:
			a, op.Return = answer{outcome: unknown}, math.MaxInt64
		}
		if a.index != 0 {
			u.seen[r.object] = a.index
		}
		switch {
		case r.verb == acquire && a.outcome == done:
			u.locks[r.object] = a.lock
		case r.verb == release:
			delete(u.locks, r.object)
		}
		op.Output = a
		u.history.add(op)
	}
}

func (u *user) choose(object string) request {
	r := request{object: object, verb: read}
	u.writes++
	value := fmt.Sprintf("%s-%d", u.name, u.writes)
	kind, _, _ := strings.Cut(object, "/")
	n := u.rng.IntN(100)
	switch {
	case n < 45:
		return r
	case kind == "locked":
		r.value, r.lock = value, u.locks[object]
		switch {
		case r.lock == "" && n < 80:
			r.verb = acquire
		case r.lock != "" && n < 75:
			r.verb = release
		default:
			r.verb = write
		}
	case n < 55:
		r.verb = remove
	case n < 80 && kind != "namespace":
		r.verb, r.value, r.index = swap, value, u.seen[object]
	default:
		r.verb, r.value = write, value
	}
	return r
}

// send sends a request to a server.
func (u *user) send(to *harness.Agent, r request) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, name, _ := strings.Cut(r.object, "/")
	var a answer
	var err error
	switch kind {
	case "namespace":
		a, err = sendNamespace(ctx, to, name, r)
	case "job":
		a, err = sendJob(ctx, to, name, r)
	default:
		a, err = sendVariable(ctx, to, r)
	}
	var status *client.Error
	switch {
	case err == nil:
		a.outcome = done
		return a, nil
	case errdefs.IsNotFound(err):
		return answer{outcome: missing}, nil
	case errdefs.IsConflict(err), errors.As(err, &status) && strings.Contains(status.Text, "Enforcing job modify index"):
		return answer{outcome: conflict}, nil
	}
	return answer{}, classify(err)
}

// classify marks errors that say that nothing was done.
func classify(err error) error {
	var status *client.Error
	if errors.As(err, &status) && status.Text == "No cluster leader" {
		return errors.Join(errNothingDone, err)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return errors.Join(errNothingDone, err)
	}
	return err
}

func sendNamespace(ctx context.Context, to *harness.Agent, name string, r request) (answer, error) {
	switch r.verb {
	case read:
		ns, _, err := to.NamespaceByName(ctx, name, nil)
		if err != nil {
			return answer{}, err
		}
		return answer{value: ns.Description, index: ns.ModifyIndex}, nil
	case remove:
		return answer{}, to.DeleteNamespace(ctx, name)
	}
	return answer{}, to.ApplyNamespace(ctx, &model.Namespace{Name: name, Description: r.value})
}

func sendJob(ctx context.Context, to *harness.Agent, name string, r request) (answer, error) {
	switch r.verb {
	case read:
		j, _, err := to.Job(ctx, name, nil)
		if err != nil {
			return answer{}, err
		}
		return answer{value: j.Meta["value"], index: j.JobModifyIndex}, nil
	case remove:
		_, err := to.DeregisterJob(ctx, name, &api.JobDeregisterRequest{Purge: true})
		return answer{}, err
	}
	draft, err := json.Marshal(map[string]any{
		"ID": name, "Name": name, "Type": "service", "Datacenters": []string{"*"}, "Meta": map[string]string{"value": r.value},
		"TaskGroups": []any{map[string]any{"Name": "g", "Count": 0, "Tasks": []any{map[string]any{
			"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/true"},
		}}}},
	})
	if err != nil {
		return answer{}, err
	}
	out, err := to.RegisterJob(ctx, &api.JobRegisterRequest{Job: draft, EnforceIndex: r.verb == swap, JobModifyIndex: r.index})
	if err != nil {
		return answer{}, err
	}
	return answer{index: out.JobModifyIndex}, nil
}

func sendVariable(ctx context.Context, to *harness.Agent, r request) (answer, error) {
	v := &client.Variable{Path: r.object, Items: map[string]string{"value": r.value}}
	if r.lock != "" {
		v.Lock = &client.VariableLock{ID: r.lock}
	}
	var out *client.Variable
	var err error
	switch r.verb {
	case read:
		out, err = to.Variable(ctx, r.object)
		if err == nil {
			return answer{value: out.Items["value"], index: out.ModifyIndex}, nil
		}
	case remove:
		// It answers the same whether there was one or not.
		return answer{}, to.DeleteVariable(ctx, r.object, nil)
	case swap:
		out, err = to.PutVariable(ctx, v, &r.index)
	case acquire:
		v.Lock = &client.VariableLock{TTL: "1h", LockDelay: "1s"}
		out, err = to.LockVariable(ctx, "acquire", v)
	case release:
		out, err = to.LockVariable(ctx, "release", v)
	default:
		out, err = to.PutVariable(ctx, v, nil)
	}
	if err != nil {
		return answer{}, err
	}
	a := answer{index: out.ModifyIndex}
	if r.verb == acquire {
		a.lock = out.Lock.ID
	}
	return a, nil
}
