// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
)

// Patience is the minimum time limit of conditions. It ends a test that hangs; it is
// not a statement about speed.
const Patience = time.Minute

// Agent is a drover agent with its own directory and supervisor.
type Agent struct {
	*client.Client
	T    *testing.T
	Dir  string // contains all files of this agent
	Data string
	Addr string
	Wrap []string // command that starts the agent; nil starts it directly
	// Binary is the agent's own copy of drover; "" means the one that all tests share.
	Binary string
	Cmd    *exec.Cmd
	Done   chan struct{}
}

// New prepares an agent, for which it waits until few enough run. It does not start it.
func New(t *testing.T) *Agent {
	t.Helper()
	TakeSlot(t)
	return Another(t)
}

// Another prepares a second agent for the same test.
func Another(t *testing.T) *Agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{T: t, Dir: dir, Data: filepath.Join(dir, "data")}
	t.Cleanup(a.cleanup)
	ports := testkit.FreePorts(t, 3)
	a.Addr = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	if a.Client, err = client.New(client.Config{Address: a.Addr}); err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, fmt.Sprintf(`
bind_addr = "127.0.0.1"
data_dir  = %q
plugin_dir = %q
ports {
  http = %d
  rpc  = %d
  serf = %d
}
client {
  enabled           = true
  network_interface = "lo"
  cpu_total_compute = 20000
  memory_total_mb   = 20000
  disk_total_mb     = 200000
  # How full the machine's own disk is does not matter to a test.
  gc_disk_usage_threshold  = 100
  gc_inode_usage_threshold = 100
}
server { enabled = true }
plugin "raw_exec" {
  config { enabled = true }
}
`, a.Data, filepath.Join(dir, "plugins"), ports[0], ports[1], ports[2]))
	// The plugin's supervisor gets a private directory, because the default one is
	// shared by the whole machine.
	a.Plugin("driver-exec", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=2s; exec %s/driver-exec \"$@\"", dir, bin))
	return a
}

// Plugin writes a shell script to the agent's plugin directory.
func (a *Agent) Plugin(name, script string) {
	a.Write(filepath.Join("plugins", name), 0o755, "#!/bin/sh\n"+script+"\n")
}

func (a *Agent) Write(name string, mode os.FileMode, text string) string {
	a.T.Helper()
	path := filepath.Join(a.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.T.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		a.T.Fatal(err)
	}
	return path
}

// Configure adds to the agent's configuration.
func (a *Agent) Configure(text string) {
	a.T.Helper()
	body, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		a.T.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, string(body)+text)
}

// Launch starts the agent's process without waiting for it.
func (a *Agent) Launch() {
	a.T.Helper()
	log, err := os.OpenFile(filepath.Join(a.Dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.T.Fatal(err)
	}
	defer log.Close()
	line := append(slices.Clone(a.Wrap), cmp.Or(a.Binary, filepath.Join(bin, "drover")), "agent", "-config", filepath.Join(a.Dir, "agent.hcl"))
	a.Cmd = exec.Command(line[0], line[1:]...)
	a.Cmd.Stdout, a.Cmd.Stderr = log, log
	if err := a.Cmd.Start(); err != nil {
		a.T.Fatal(err)
	}
	cmd, done := a.Cmd, make(chan struct{})
	a.Done = done
	go func() {
		defer close(done)
		_ = cmd.Wait() // tests check elsewhere how it ended
	}()
}

// Start starts the agent and waits until its node can run tasks and
// answers requests.
func (a *Agent) Start() {
	a.T.Helper()
	a.Launch()
	a.Eventually(Patience, "the node is ready", func() bool {
		if !a.Alive() {
			a.T.Fatalf("the agent has ended at its start: %v", a.Cmd.ProcessState)
		}
		nodes, _, err := a.Nodes(a.Context(), nil)
		if err != nil || len(nodes) != 1 || nodes[0].Status != model.NodeStatusReady {
			return false
		}
		d := nodes[0].Drivers["raw_exec"]
		return d != nil && d.Healthy
	})
	a.Eventually(Patience, "the node has its session with the server", func() bool {
		code, _ := a.HTTPGet("/v1/agent/plugins")
		return code == http.StatusOK
	})
}

// Kill kills the agent with SIGKILL.
func (a *Agent) Kill() {
	a.T.Helper()
	if err := a.Cmd.Process.Kill(); err != nil {
		a.T.Fatal(err)
	}
	<-a.Done
}

func (a *Agent) Alive() bool {
	select {
	case <-a.Done:
		return false
	default:
		return true
	}
}

// cleanup kills every process whose command line or environment contains the agent's
// directory: the agent, plugins, supervisors and tasks.
func (a *Agent) cleanup() {
	if a.T.Failed() {
		log, _ := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
		a.T.Logf("the agent's log ends:\n%s", log[max(0, len(log)-4000):])
	}
	a.KillAll()
	if err := mounts.Detach(a.Dir); err != nil { // secrets are mounts
		a.T.Log(err)
	}
	if err := os.RemoveAll(a.Dir); err != nil {
		a.T.Log(err)
	}
}

// KillAll kills every process of the agent. It repeats this for some seconds.
func (a *Agent) KillAll() {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		left := a.Processes("")
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// Processes returns the pids of this agent's processes whose command line contains
// what.
func (a *Agent) Processes(what string) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		cmdline, _ := os.ReadFile(d + "/cmdline")
		environ, _ := os.ReadFile(d + "/environ")
		line := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if len(cmdline) > 0 && strings.Contains(line+string(environ), a.Dir+"/") && strings.Contains(line, what) {
			if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() {
				out = append(out, pid)
			}
		}
	}
	return out
}

// Child returns the plugin's process, which is a child of the agent.
func (a *Agent) Child() int {
	for _, pid := range a.Processes("driver-exec") {
		if Parent(pid) == a.Cmd.Process.Pid {
			return pid
		}
	}
	return 0
}

func Parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	n, _ := strconv.Atoi(f[1])
	return n
}

// Running reports whether a process exists and is not a zombie.
func Running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[0] != "Z"
}

func (a *Agent) Context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	a.T.Cleanup(cancel)
	return ctx
}

// Eventually polls until ok returns true. It fails the test after limit, but never
// before patience; limit is for conditions that take longer.
func (a *Agent) Eventually(limit time.Duration, what string, ok func() bool) {
	a.T.Helper()
	limit = max(limit, Patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			a.T.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// OnlyOnce is the part of a group that forbids restarts and reschedules.
const OnlyOnce = `    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
`

// Quick is an update block for tests.
const Quick = `update {
  min_healthy_time  = "100ms"
  healthy_deadline  = "60s"
  progress_deadline = "75s"
}
`

// Path returns the path of a file in an alloc's directory.
func (a *Agent) Path(alloc, name string) string { return filepath.Join(a.Data, "alloc", alloc, name) }

func (a *Agent) Log() string {
	b, _ := os.ReadFile(filepath.Join(a.Dir, "agent.log"))
	return string(b)
}
