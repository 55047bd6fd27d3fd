// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Variables are the operations on variables.
type Variables interface {
	PutVariable(ctx context.Context, req *VariableRequest) (v *Variable, index uint64, err error)
	DeleteVariable(ctx context.Context, req *VariableRequest) (index uint64, err error)
	// OpenVariable decrypts a variable of the View.
	OpenVariable(row *model.Variable) (*Variable, error)
}

// VariableMeta is a variable without its items.
type VariableMeta struct {
	Namespace   string
	Path        string
	CreateIndex uint64
	CreateTime  int64
	ModifyIndex uint64
	ModifyTime  int64
	Lock        *VariableLock `json:",omitempty"`
}

// Variable is a variable with its items.
type Variable struct {
	VariableMeta
	Items map[string]string
}

// VariableLock is the lock of a variable in requests and answers.
type VariableLock struct {
	ID        string
	TTL       LockTime
	LockDelay LockTime
}

// LockTime is a duration that is encoded as text ("15s") and decoded from text or
// nanoseconds.
type LockTime time.Duration

// MarshalJSON encodes the duration as text.
func (d LockTime) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).String()) }

// UnmarshalJSON decodes text or nanoseconds.
func (d *LockTime) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		var n int64
		if err := json.Unmarshal(b, &n); err != nil {
			return fmt.Errorf("a time of a lock is neither text nor a number: %s", b)
		}
		*d = LockTime(n)
		return nil
	}
	if text == "" {
		return nil
	}
	t, err := time.ParseDuration(text)
	*d = LockTime(t)
	return err
}

// Operations of a VariableRequest on the lock.
const (
	LockAcquire = "acquire"
	LockRelease = "release"
	LockRenew   = "renew"
)

// VariableRequest writes or deletes a variable. A nil CAS writes unconditionally.
type VariableRequest struct {
	Namespace string
	Path      string
	Items     map[string]string
	Lock      *VariableLock // with LockAcquire the lock to acquire, otherwise its ID identifies the caller as holder
	Operation string        // "", or one of the Lock constants
	CAS       *uint64
}

// MetaOfVariable returns a variable without its items. It leaves out an expired lock.
func MetaOfVariable(v *model.Variable, now time.Time) VariableMeta {
	m := VariableMeta{
		Namespace: v.Namespace, Path: v.Path, CreateIndex: v.CreateIndex, CreateTime: v.CreateTime,
		ModifyIndex: v.ModifyIndex, ModifyTime: v.ModifyTime,
	}
	if v.Lock.HeldAt(now.UnixNano()) {
		m.Lock = &VariableLock{ID: v.Lock.ID, TTL: LockTime(v.Lock.TTL), LockDelay: LockTime(v.Lock.LockDelay)}
	}
	return m
}

func listVariables(v View, q *query) result {
	now := time.Now()
	p := page[*model.Variable]{
		items: v.Variables(q.stateNamespace(), q.prefix()),
		order: func(v *model.Variable) order { return order{id: v.Namespace + "." + v.Path} },
	}
	return listOf(q, p, func(v *model.Variable) VariableMeta { return MetaOfVariable(v, now) })
}

func variableKey(q *query) []state.Key {
	return []state.Key{{Table: state.TableVariables, Value: state.VariableKey(q.namespace, q.r.PathValue("path"))}}
}

func theVariable(v View, q *query) (*model.Variable, error) {
	return orMissing(v.VariableByPath(q.namespace, q.r.PathValue("path")), "variable not found")
}

func variableIndex(v *model.Variable) uint64 { return v.ModifyIndex }

func openVariable(_ View, q *query, row *model.Variable) result {
	out, err := q.s.backend.OpenVariable(row)
	if err != nil {
		return failed(err)
	}
	return shown(out)
}

// variableRequest parses the parameters and the body of a write.
func variableRequest(r *http.Request, body *Variable) (*VariableRequest, error) {
	p := paramsOf(r)
	req := &VariableRequest{Namespace: namespaceOf(r), Path: r.PathValue("path"), Items: body.Items, Lock: body.Lock}
	if body.Path != "" && body.Path != req.Path {
		return nil, fail(http.StatusBadRequest, "Path of the variable is not that of the request")
	}
	if body.Namespace != "" {
		if p.get("namespace") != "" && body.Namespace != req.Namespace {
			return nil, fail(http.StatusBadRequest, "Namespace of the variable is not that of the request")
		}
		req.Namespace = body.Namespace
	}
	for param, op := range map[string]string{"lock-acquire": LockAcquire, "lock-release": LockRelease, "lock-renew": LockRenew} {
		if !p.has(param) {
			continue
		}
		if req.Operation != "" {
			return nil, fail(http.StatusBadRequest, "only one of lock-acquire, lock-release and lock-renew can be asked for")
		}
		req.Operation = op
	}
	if v := p.get("cas"); v != "" {
		n, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			return nil, fail(http.StatusBadRequest, "can not parse cas: "+err.Error())
		}
		req.CAS = &n
	}
	return req, nil
}

func (s *Server) putVariable(w http.ResponseWriter, r *http.Request) (any, error) {
	var body Variable
	if err := decodeBody(r, &body, false); err != nil {
		return nil, err
	}
	req, err := variableRequest(r, &body)
	if err != nil {
		return nil, err
	}
	if req.Operation == "" && len(req.Items) == 0 {
		return nil, fail(http.StatusBadRequest, "variable missing required Items object")
	}
	v, index, err := s.backend.PutVariable(r.Context(), req)
	if err != nil {
		return s.refusedWrite(w, req, err)
	}
	setIndex(w, index)
	switch req.Operation {
	case LockRenew:
		return &v.VariableMeta, nil
	case LockRelease: // the answer has the items of the request
		return &Variable{VariableMeta: v.VariableMeta, Items: req.Items}, nil
	}
	return v, nil
}

func (s *Server) deleteVariable(w http.ResponseWriter, r *http.Request) (any, error) {
	req, err := variableRequest(r, &Variable{})
	if err != nil {
		return nil, err
	}
	if id := paramsOf(r).get("lock-id"); id != "" {
		req.Lock = &VariableLock{ID: id}
	}
	index, err := s.backend.DeleteVariable(r.Context(), req)
	if err != nil {
		return s.refusedWrite(w, req, err)
	}
	setIndex(w, index)
	w.WriteHeader(http.StatusNoContent)
	return done, nil
}

// refusedWrite answers a conflict with the stored variable, and other errors with the
// texts that clients expect.
func (s *Server) refusedWrite(w http.ResponseWriter, req *VariableRequest, err error) (any, error) {
	switch {
	case errdefs.IsInvalidArgument(err):
		setIndex(w, 0)
		return nil, fail(http.StatusBadRequest, "RPC Error:: 400,"+err.Error())
	case !errdefs.IsConflict(err):
		return nil, err
	}
	row := s.backend.View().VariableByPath(req.Namespace, req.Path)
	if row == nil {
		return nil, fail(http.StatusConflict, err.Error())
	}
	setIndex(w, row.ModifyIndex)
	out, openErr := s.backend.OpenVariable(row)
	if openErr != nil {
		return nil, openErr
	}
	text, encErr := encodeJSON(out, false)
	if encErr != nil {
		return nil, encErr
	}
	return nil, fail(http.StatusConflict, string(text))
}
