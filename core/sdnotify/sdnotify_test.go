// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package sdnotify_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/sdnotify"
)

// systemd receives messages.
func systemd(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		t.Helper()
		b := make([]byte, 4096)
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

func from(t *testing.T, env map[string]string) *sdnotify.Notifier {
	t.Helper()
	n := sdnotify.FromEnvironment(func(k string) (string, bool) { v, ok := env[k]; return v, ok }, func(k string) error { delete(env, k); return nil }, 7)
	if len(env) > 0 {
		t.Errorf("children of the agent would inherit %v", env)
	}
	return n
}

func TestMessagesAreThoseOfSystemd(t *testing.T) {
	path, next := systemd(t)
	n := from(t, map[string]string{"NOTIFY_SOCKET": path})
	for want, send := range map[string]func() error{
		`^READY=1\nSTATUS=a; READY=0$`:                                func() error { return n.Ready("a\nREADY=0") },
		`^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]*\nSTATUS=Reading.*$`: n.Reloading,
		`^STOPPING=1\nSTATUS=b$`:                                      func() error { return n.Stopping("b") },
		`^STATUS=c$`:                                                  func() error { return n.Status("c") },
		`^EXTEND_TIMEOUT_USEC=30000000$`:                              func() error { return n.Extend(30 * time.Second) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
		if got := next(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%q does not match %s", got, want)
		}
	}
}

func TestWithoutSystemdNothingIsSent(t *testing.T) {
	n := from(t, map[string]string{"WATCHDOG_USEC": "1000"})
	if err := errors.Join(n.Ready(""), n.Reloading(), n.Stopping("")); err != nil {
		t.Error(err)
	}
	n.Watch(t.Context(), func(context.Context) error { t.Error("asked"); return nil }, func(err error) { t.Error(err) })
}

func TestAWatchdogIsFedOnlyByAProcessThatLives(t *testing.T) {
	path, next := systemd(t)
	n := from(t, map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "60000", "WATCHDOG_PID": "7"})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs, done := make(chan struct{}), make(chan struct{})
	reports := make(chan error, 100)
	go func() {
		defer close(done)
		n.Watch(ctx, func(ctx context.Context) error {
			select {
			case <-hangs:
				<-ctx.Done()
				return ctx.Err()
			default:
				return nil
			}
		}, func(err error) { reports <- err })
	}()
	for range 3 {
		if got := next(); got != "WATCHDOG=1" {
			t.Fatal(got)
		}
	}
	close(hangs)
	for range 3 {
		if err := <-reports; !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
	}
	cancel()
	<-done
}

func TestAWatchdogOfAnotherProcessIsNotFed(t *testing.T) {
	path, _ := systemd(t)
	n := from(t, map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "60000", "WATCHDOG_PID": "8"})
	n.Watch(t.Context(), func(context.Context) error { t.Error("asked"); return nil }, func(err error) { t.Error(err) })
}

func TestASocketThatIsGoneIsAnError(t *testing.T) {
	n := from(t, map[string]string{"NOTIFY_SOCKET": filepath.Join(t.TempDir(), "none")})
	if err := n.Ready(""); err == nil || !strings.Contains(err.Error(), "systemd") {
		t.Error(err)
	}
}
