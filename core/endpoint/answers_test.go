// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/internal/testkit"
)

// interrupted is a log in which, after a command was applied, someone else writes before
// the proposer of the command goes on.
type interrupted struct {
	endpoint.Raft
	then func()
}

func (r *interrupted) Propose(ctx context.Context, data []byte) (uint64, any, error) {
	index, answer, err := r.Raft.Propose(ctx, data)
	if then := r.then; then != nil {
		r.then = nil
		then()
	}
	return index, answer, err
}

func TestAnAnswerIsAboutTheWriteAndNotAboutALaterOne(t *testing.T) {
	c := testkit.Start(t)
	other := c.Endpoint
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	log := &interrupted{Raft: other.Raft}
	cfg := other.Config
	cfg.Raft = log
	e := endpoint.New(cfg)

	if _, _, err := other.PutVariable(ctx, put("v", ab)); err != nil { // the keyring has its key
		t.Fatal(err)
	}
	log.then = func() {
		if _, _, err := other.PutVariable(ctx, put("v", map[string]string{"a": "other"})); err != nil {
			t.Error(err)
		}
	}
	v, index, err := e.PutVariable(ctx, put("v", map[string]string{"a": "mine"}))
	if err != nil || v.ModifyIndex != index || v.Items["a"] != "mine" {
		t.Errorf("a variable was written at %d, and the answer is %+v, %v", index, v, err)
	}

	var lock *api.Variable
	acquire := put("l", ab)
	acquire.Operation, acquire.Lock = api.LockAcquire, &api.VariableLock{ID: "mine"}
	log.then = func() {
		free := put("l", nil)
		free.Operation, free.Lock = api.LockRelease, &api.VariableLock{ID: "mine"}
		if _, _, err := other.PutVariable(ctx, free); err != nil {
			t.Error(err)
		}
		if _, err := other.DeleteVariable(ctx, put("l", nil)); err != nil {
			t.Error(err)
		}
	}
	if lock, _, err = e.PutVariable(ctx, acquire); err != nil || lock.Lock == nil || lock.Lock.ID != "mine" {
		t.Errorf("a lock was acquired, and then released and deleted: the answer is %+v, %v", lock, err)
	}

	log.then = func() {
		if _, err := other.RegisterJob(ctx, &api.JobRegisterRequest{Job: draft("j", "service", `"Meta":{"by":"other"},`)}); err != nil {
			t.Error(err)
		}
	}
	r, err := e.RegisterJob(ctx, &api.JobRegisterRequest{Job: draft("j", "service", `"Meta":{"by":"me"},`)})
	if err != nil || r.JobModifyIndex != r.Index {
		t.Errorf("a job was registered, and the answer is %+v, %v", r, err)
	}
}
