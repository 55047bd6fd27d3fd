// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package compat_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/nomad/api"
)

// binary returns the path of the drover binary to test.
func binary(t *testing.T) string {
	t.Helper()
	path := os.Getenv("DROVER_BIN")
	if path == "" {
		path = filepath.Join("..", "..", "bin", "drover")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no drover binary at %s: run make build, or set DROVER_BIN", path)
	}
	return path
}

func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}

// lines is a buffer that is safe for concurrent use by a process and a test.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.buf.String()
	return s[max(0, len(s)-100_000):]
}

// agent starts a dev agent and returns a client for it once its node is ready.
func agent(t *testing.T) *api.Client {
	t.Helper()
	bin := binary(t)
	ports := freePorts(t, 3)
	cfg := filepath.Join(t.TempDir(), "ports.hcl")
	text := fmt.Sprintf("ports {\n  http = %d\n  rpc = %d\n  serf = %d\n}\n", ports[0], ports[1], ports[2])
	if err := os.WriteFile(cfg, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &lines{}
	cmd := exec.Command(bin, "agent", "-dev", "-config", cfg)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() { defer close(exited); _ = cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-exited:
		case <-time.After(time.Minute):
			t.Error("the agent did not end within a minute of SIGINT")
			_ = cmd.Process.Signal(syscall.SIGQUIT) // it prints what its goroutines wait for
			select {
			case <-exited:
			case <-time.After(10 * time.Second):
				_ = cmd.Process.Kill()
				<-exited
			}
		}
		if t.Failed() {
			t.Logf("the agent's last words:\n%s", out.tail())
		}
	})
	c, err := api.NewClient(&api.Config{Address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a ready node", func() error {
		nodes, _, err := c.Nodes().List(nil)
		if err != nil {
			return err
		}
		if len(nodes) != 1 || nodes[0].Status != "ready" {
			return fmt.Errorf("nodes: %+v", nodes)
		}
		return nil
	})
	return c
}

// eventually waits until check returns nil.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %s within 2 min: %v", what, err)
		}
		<-tick.C
	}
}

func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantError checks the status and the text of an error.
func wantError(t *testing.T, err error, status int, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want status %d with %q", status, text)
	}
	if !strings.Contains(err.Error(), fmt.Sprint(status)) || !strings.Contains(err.Error(), text) {
		t.Errorf("got %q; want status %d with %q", err, status, text)
	}
}
