// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
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

	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// notified is what an agent has told systemd.
type notified struct {
	mu  sync.Mutex
	all []string
}

// watched makes an agent tell a socket of the test what it tells systemd.
func watched(t *testing.T, a *agent, watchdog time.Duration) *notified {
	t.Helper()
	path := filepath.Join(a.Dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	n := &notified{}
	go func() {
		b := make([]byte, 4096)
		for {
			k, err := conn.Read(b)
			if err != nil {
				return
			}
			n.mu.Lock()
			n.all = append(n.all, string(b[:k]))
			n.mu.Unlock()
		}
	}()
	t.Cleanup(func() { conn.Close() })
	a.Wrap = []string{"env", "NOTIFY_SOCKET=" + path, fmt.Sprintf("WATCHDOG_USEC=%d", watchdog.Microseconds())}
	return n
}

// count returns how many messages begin so.
func (n *notified) count(prefix string) (found int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.all {
		if strings.HasPrefix(m, prefix) {
			found++
		}
	}
	return found
}

func (n *notified) last(prefix string) (found string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.all {
		if strings.HasPrefix(m, prefix) {
			found = m
		}
	}
	return found
}

func TestAnAgentTellsSystemdWhatItDoesAndLivesOnAfterAReload(t *testing.T) {
	a := newAgent(t)
	n := watched(t, a, 3*time.Second)
	a.Configure("log_file = \"" + filepath.Join(a.Dir, "own.log") + "\"\nlog_rotate_bytes = 4096\nlog_rotate_max_files = 2\n")
	a.start()
	a.Eventually(harness.Patience, "the agent is ready", func() bool { return n.count("READY=1\nSTATUS=server, the leader; node with 0 allocs") == 1 })
	a.Eventually(harness.Patience, "the watchdog is fed", func() bool { return n.count("WATCHDOG=1") > 2 })
	a.Run(harness.Shell("web", "service", 1, "", "env | grep -e NOTIFY -e WATCHDOG; exec sleep 1000"))
	running := a.Await("web", "running", 1)
	pids := a.PIDs(running)
	if out := a.Must("alloc", "logs", running[0].ID, "t"); strings.Contains(out, "NOTIFY") || strings.Contains(out, "WATCHDOG") {
		t.Errorf("a task can speak for the agent:\n%s", out)
	}

	a.Configure("log_level = \"DEBUG\"\nlog_json = true\nregion = \"eu\"\n")
	if err := a.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	a.Eventually(harness.Patience, "the agent has reloaded", func() bool { return n.count("READY=1") == 2 })
	if m := n.last("RELOADING=1"); !strings.HasPrefix(m, "RELOADING=1\nMONOTONIC_USEC=") {
		t.Errorf("%q", m)
	}
	for _, want := range []string{`"keys":"region"`, `"changed":"log_json, log_level"`} {
		if !strings.Contains(a.Log(), want) {
			t.Errorf("the log does not contain %s", want)
		}
	}
	a.Configure("nonsense = 1\n")
	if err := a.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	a.Eventually(harness.Patience, "the agent refuses a wrong configuration", func() bool { return strings.Contains(n.last("READY=1"), "Not reloaded") })
	a.Eventually(harness.Patience, "the log file is rotated, and two older ones stay", func() bool {
		a.HTTPGet("/v1/jobs") // each request is a line
		files, err := filepath.Glob(filepath.Join(a.Dir, "own*.log"))
		return err == nil && len(files) == 3
	})
	if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-a.Done
	if n.count("STOPPING=1") != 1 {
		t.Error("it did not say that it stops")
	}
	for _, pid := range pids {
		if !harness.Running(pid) {
			t.Error("the task has ended with the agent")
		}
	}
}

// The test replaces a running binary as docs/systemd.md says.
func TestABinaryIsReplacedWhileTasksRun(t *testing.T) {
	a := newAgent(t)
	a.Binary = filepath.Join(a.Dir, "drover")
	// Another process copies it: a program that this one had open for writing could still be
	// open in a child of another test, and then cannot be started ("text file busy").
	if out, err := exec.Command("cp", filepath.Join(harness.Bin(), "drover"), a.Binary).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	a.start()
	a.Run(harness.Shell("web", "service", 3, "", "exec sleep 1000"))
	running := a.Await("web", "running", 3)
	pids := a.PIDs(running)
	harness.Build(t, a.Binary+".new", "cmd/drover", "-ldflags", "-X main.version=9.9.9-next")
	if err := os.Rename(a.Binary+".new", a.Binary); err != nil {
		t.Fatal(err)
	}
	if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-a.Done
	a.start()
	if out := a.Must("server", "members"); !strings.Contains(out, "9.9.9-next") {
		t.Errorf("the old binary runs:\n%s", out)
	}
	after := a.Await("web", "running", 3)
	testkit.Eventually(t, "the tasks are the same", func() bool {
		got := a.PIDs(after)
		for id, pid := range pids {
			if got[id] != pid {
				return false
			}
		}
		return len(got) == len(pids)
	})
	for _, x := range after {
		if out, code := a.CLI("alloc", "exec", "-task", "t", x.ID, "echo", "hi"); code != 0 || strings.TrimSpace(out) != "hi" {
			t.Errorf("exec in a task that outlived the upgrade: exit code %d, %s", code, out)
		}
	}
}

func TestTheUnitsAreThoseThatSystemdAccepts(t *testing.T) {
	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	dir := t.TempDir()
	for _, name := range []string{"drover.service", "drover-server.service"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		// The binary and the user are there on machines with Drover only.
		text := strings.NewReplacer("/opt/drover/drover", "/bin/true", "User=drover", "User=root", "Group=drover", "Group=root").Replace(string(b))
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(tool, "verify", "--man=no", file).CombinedOutput(); err != nil || strings.Contains(string(out), name+":") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}
