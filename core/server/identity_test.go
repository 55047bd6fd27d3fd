// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/sdk/errdefs"
)

// startOnce starts a server on a data directory, waits until it leads, stops it and
// returns its id.
func startOnce(t *testing.T, dir string) (string, error) {
	t.Helper()
	s, err := server.New(server.Config{DataDir: dir, Dev: true, Logger: hclog.NewNullLogger()})
	if err != nil {
		return "", err
	}
	s.Start()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.WaitLeader(ctx); err != nil {
		return s.ID(), errors.Join(err, s.Close())
	}
	id := s.ID()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return id, nil
}

func TestAServerWhoseIDWasLostTakesItFromTheLog(t *testing.T) {
	dir := t.TempDir()
	first, err := startOnce(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "server-id")
	for name, lose := range map[string]func() error{
		"as it was":            func() error { return nil },
		"emptied by power cut": func() error { return os.Truncate(file, 0) },
		"removed":              func() error { return os.Remove(file) },
	} {
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		if id, err := startOnce(t, dir); err != nil || id != first {
			t.Errorf("%s: id %q, %v; want %q", name, id, err, first)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != first {
			t.Errorf("%s: the file holds %q, %v", name, b, err)
		}
	}
	if err := os.WriteFile(file, []byte("not an id"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := startOnce(t, dir); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), file) {
		t.Errorf("a file with something else: %v", err)
	}
}

// TestAnEmptyLogBesideAnIDIsRefused: a server that starts without what it has
// acknowledged would have its nodes stop every task.
func TestAnEmptyLogBesideAnIDIsRefused(t *testing.T) {
	for _, lost := range []string{"raft", "raft/log"} {
		dir := t.TempDir()
		if _, err := startOnce(t, dir); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Join(dir, lost)); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := startOnce(t, dir); err == nil || !strings.Contains(err.Error(), "backup") {
				t.Errorf("%s removed: %v", lost, err)
			}
		}
	}
	dir := t.TempDir()
	if _, err := startOnce(t, dir); err != nil {
		t.Fatal(err)
	}
	// The operator agrees to lose it: both the count of the log and the id go.
	for _, file := range []string{"raft/log", "server-id"} {
		if err := os.RemoveAll(filepath.Join(dir, file)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(durable.CommitsFile(filepath.Join(dir, "raft", "log"))); err != nil {
		t.Fatal(err)
	}
	if _, err := startOnce(t, dir); err != nil {
		t.Errorf("after the operator has agreed: %v", err)
	}
}
