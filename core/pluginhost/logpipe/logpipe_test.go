// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package logpipe_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/pluginhost/logpipe"
)

// TestMain is the collector where the test says so.
func TestMain(m *testing.M) {
	for i, a := range os.Args {
		if a == "-collect" {
			serve(os.Args[i+1])
			return
		}
	}
	os.Exit(m.Run())
}

func serve(dir string) {
	l, err := logpipe.Listen(filepath.Join(dir, logpipe.SocketName))
	if err == nil {
		err = logpipe.NewCollector(2*time.Second).Serve(context.Background(), l)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func client(t *testing.T, dir string) *logpipe.Client {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return logpipe.NewClient(dir, []string{self, "-collect", dir})
}

// scarce is a listener that has no descriptor for its first client.
type scarce struct {
	net.Listener
	refused atomic.Bool
}

func (s *scarce) Accept() (net.Conn, error) {
	if s.refused.CompareAndSwap(false, true) {
		return nil, &net.OpError{Op: "accept", Err: unix.EMFILE}
	}
	return s.Listener.Accept()
}

func TestACollectorThatCannotAcceptAClientGoesOn(t *testing.T) {
	dir := t.TempDir()
	l, err := logpipe.Listen(filepath.Join(dir, logpipe.SocketName))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- logpipe.NewCollector(0).Serve(ctx, &scarce{Listener: l}) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	if err := logpipe.NewClient(dir, nil).Detach(ctx, "/no/such/fifo"); err != nil {
		t.Error(err)
	}
	select {
	case err := <-served:
		served <- err
		t.Errorf("the collector ended: %v", err)
	default:
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if ok() {
			return
		}
		<-time.After(2 * time.Millisecond)
	}
	t.Fatal("did not happen: ", what)
}

func write(t *testing.T, fifo, text string) {
	t.Helper()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsWrittenIntoAFIFOIsInTheLogAlsoOverSeveralWriters(t *testing.T) {
	dir := t.TempDir()
	p := logpipe.Pipe{Path: filepath.Join(dir, ".t.fifo"), Base: filepath.Join(dir, "t.stdout"), MaxFiles: 2, MaxFileSizeMB: 1}
	c := client(t, dir)
	if err := c.Attach(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := client(t, dir).Attach(t.Context(), p); err != nil { // another agent finds the same collector
		t.Fatal(err)
	}
	write(t, p.Path, "one\n")
	write(t, p.Path, "two\n")
	if err := c.Detach(t.Context(), p.Path); err != nil {
		t.Fatal(err)
	}
	if body, _ := os.ReadFile(p.Base + ".0"); string(body) != "one\ntwo\n" {
		t.Fatalf("the log holds %q", body)
	}
	if _, err := os.Lstat(p.Path); !os.IsNotExist(err) {
		t.Fatalf("the FIFO is still there: %v", err)
	}
	socket := filepath.Join(dir, logpipe.SocketName)
	until(t, "an idle collector ends", func() bool { _, err := os.Lstat(socket); return os.IsNotExist(err) })
}

func TestAKilledCollectorIsReplacedAndItsWritersGoOn(t *testing.T) {
	dir := t.TempDir()
	p := logpipe.Pipe{Path: filepath.Join(dir, ".t.fifo"), Base: filepath.Join(dir, "t.stdout")}
	c := client(t, dir)
	if err := c.Attach(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(p.Path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	_, _ = f.WriteString("before\n")
	has := func(text string) func() bool {
		return func() bool { body, _ := os.ReadFile(p.Base + ".0"); return strings.Contains(string(body), text) }
	}
	until(t, "the first line", has("before"))
	kill(t, dir)
	if err := c.Attach(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("after\n"); err != nil {
		t.Fatal(err)
	}
	until(t, "the second line", has("after"))
	kill(t, dir)
}

// kill ends the collector of dir with -9.
func kill(t *testing.T, dir string) {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(procs) == 0 {
		t.Skip("no /proc to find the collector in")
	}
	for _, path := range procs {
		line, _ := os.ReadFile(path)
		if !bytes.Contains(line, []byte("-collect\x00"+dir+"\x00")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil {
			_ = unix.Kill(pid, unix.SIGKILL)
			until(t, "the collector is gone", func() bool {
				conn, err := os.ReadFile(path)
				return err != nil || len(conn) == 0
			})
			return
		}
	}
	t.Fatal("no collector runs")
}

func TestACollectorForgetsFIFOsThatWereRemoved(t *testing.T) {
	dir := t.TempDir()
	p := logpipe.Pipe{Path: filepath.Join(dir, ".t.fifo"), Base: filepath.Join(dir, "t.stdout")}
	if err := client(t, dir).Attach(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p.Path); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, logpipe.SocketName)
	until(t, "it ends", func() bool { _, err := os.Lstat(socket); return os.IsNotExist(err) })
}

func TestSomethingElseInTheFIFOsPlaceIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c := logpipe.NewCollector(0)
	defer c.Close()
	if err := c.Attach(logpipe.Pipe{Path: path, Base: filepath.Join(dir, "t.stdout")}); err == nil {
		t.Fatal("a file was taken for a FIFO")
	}
}
