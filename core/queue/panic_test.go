// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package queue

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/model"
)

func TestAPanicAtADelayedEvaluationCostsThatOneAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBroker(Config{})
		b.SetEnabled(true)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		soon := time.Now().Add(time.Second)
		bad := &model.Evaluation{ID: "bad", JobID: "a", Type: "service", WaitUntil: soon}
		b.Enqueue(bad, &model.Evaluation{ID: "good", JobID: "b", Type: "service", WaitUntil: soon})
		b.mu.Lock()
		b.known["bad"].eval = nil // no message does so
		b.mu.Unlock()
		e, token, err := b.Dequeue(ctx)
		if err != nil || e.ID != "good" {
			t.Fatalf("%v, %v", e, err)
		}
		if err := b.Ack(e.ID, token); err != nil {
			t.Error(err)
		}
		if got := b.Stats(); got != (Stats{}) {
			t.Errorf("%+v is left", got)
		}
		b.Enqueue(bad) // as from another feed
		if e, _, err := b.Dequeue(ctx); err != nil || e.ID != "bad" {
			t.Errorf("%v, %v", e, err)
		}
		cancel()
		<-ended
	})
}
