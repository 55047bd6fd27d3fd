// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
)

func TestAWrongClockIsSaidOnceToOperatorAndServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		r := &registrar{end: make(chan struct{}), ahead: time.Hour}
		s, err := session.New(t.Context(), session.Config{Servers: r, Store: keptTokens{}, NodeID: "n", Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
		if err != nil {
			t.Fatal(err)
		}
		s.Bind(session.Parts{Node: func() *model.Node { return &model.Node{ID: "n"} }, Updates: noUpdates{}, Releases: func() {}})
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { s.Run(ctx); close(over) }()
		for _, ahead := range []time.Duration{time.Hour, time.Hour, 20 * time.Second, -2 * time.Minute} {
			r.mu.Lock()
			r.ahead = ahead
			r.mu.Unlock()
			s.Touch()
			time.Sleep(10 * time.Second)
			synctest.Wait()
		}
		cancel()
		<-over
		want := []string{"The clock is 1h0m0s ahead of the servers'", "The clock agrees with the servers' again", "The clock is 2m0s behind the servers'"}
		if !slices.Equal(r.said, want) {
			t.Errorf("the servers were told %q, want %q", r.said, want)
		}
		if n := strings.Count(log.String(), "[WARN]"); n != 2 || !strings.Contains(log.String(), "set the clock") {
			t.Errorf("the log says:\n%s", log.String())
		}
	})
}
