// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
)

// bin is the directory of the binaries, which are built once per run.
var bin string

// patience is the minimum time limit of conditions. It ends a test that hangs; it is
// not a statement about speed.
const patience = time.Minute

// slots limits the number of agents that run concurrently.
var slots = make(chan struct{}, 2)

func TestMain(m *testing.M) {
	code, err := build(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func build(m *testing.M) (int, error) {
	if runtime.GOOS != "linux" {
		return 0, nil // the harness reads /proc
	}
	var err error
	if bin, err = os.MkdirTemp("", "drover-e2e-bin-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	for _, name := range []string{"drover", "drover-plugins"} {
		cmd := exec.Command("go", "build", "-o", filepath.Join(bin, name), "../../cmd/"+name)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	if err := os.Symlink("drover-plugins", filepath.Join(bin, "driver-exec")); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

// agent is a drover agent with its own directory and supervisor.
type agent struct {
	*client.Client
	t    *testing.T
	dir  string // contains all files of this agent
	data string
	addr string
	wrap []string // command that starts the agent; nil starts it directly
	cmd  *exec.Cmd
	done chan struct{}
}

// newAgent prepares an agent. It does not start it.
func newAgent(t *testing.T) *agent {
	t.Helper()
	t.Parallel()
	slots <- struct{}{}
	t.Cleanup(func() { <-slots })
	return anotherAgent(t)
}

// anotherAgent prepares a second agent for the same test.
func anotherAgent(t *testing.T) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "drover-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{t: t, dir: dir, data: filepath.Join(dir, "data")}
	t.Cleanup(a.cleanup)
	ports := testkit.FreePorts(t, 3)
	a.addr = fmt.Sprintf("http://127.0.0.1:%d", ports[0])
	if a.Client, err = client.New(client.Config{Address: a.addr}); err != nil {
		t.Fatal(err)
	}
	a.write("agent.hcl", 0o600, fmt.Sprintf(`
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
`, a.data, filepath.Join(dir, "plugins"), ports[0], ports[1], ports[2]))
	// The plugin's supervisor gets a private directory, because the default one is
	// shared by the whole machine.
	a.plugin("driver-exec", fmt.Sprintf("export DROVER_PLUGIN_STATE_DIR=%s/state DROVER_SUPERVISOR_IDLE=2s; exec %s/driver-exec \"$@\"", dir, bin))
	return a
}

// plugin writes a shell script to the agent's plugin directory.
func (a *agent) plugin(name, script string) {
	a.write(filepath.Join("plugins", name), 0o755, "#!/bin/sh\n"+script+"\n")
}

func (a *agent) write(name string, mode os.FileMode, text string) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		a.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// configure adds to the agent's configuration.
func (a *agent) configure(text string) {
	a.t.Helper()
	body, err := os.ReadFile(filepath.Join(a.dir, "agent.hcl"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.write("agent.hcl", 0o600, string(body)+text)
}

// launch starts the agent's process without waiting for it.
func (a *agent) launch() {
	a.t.Helper()
	log, err := os.OpenFile(filepath.Join(a.dir, "agent.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		a.t.Fatal(err)
	}
	defer log.Close()
	line := append(slices.Clone(a.wrap), filepath.Join(bin, "drover"), "agent", "-config", filepath.Join(a.dir, "agent.hcl"))
	a.cmd = exec.Command(line[0], line[1:]...)
	a.cmd.Stdout, a.cmd.Stderr = log, log
	if err := a.cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	cmd, done := a.cmd, make(chan struct{})
	a.done = done
	go func() {
		defer close(done)
		_ = cmd.Wait() // tests check elsewhere how it ended
	}()
}

// start starts the agent and waits until its node can run tasks.
func (a *agent) start() *agent {
	a.t.Helper()
	a.launch()
	a.eventually(patience, "the node is ready", func() bool {
		if !a.alive() {
			a.t.Fatalf("the agent has ended at its start: %v", a.cmd.ProcessState)
		}
		nodes, _, err := a.Nodes(a.ctx(), nil)
		if err != nil || len(nodes) != 1 || nodes[0].Status != model.NodeStatusReady {
			return false
		}
		d := nodes[0].Drivers["raw_exec"]
		return d != nil && d.Healthy
	})
	return a
}

// kill kills the agent with SIGKILL.
func (a *agent) kill() {
	a.t.Helper()
	if err := a.cmd.Process.Kill(); err != nil {
		a.t.Fatal(err)
	}
	<-a.done
}

func (a *agent) alive() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// cleanup kills every process whose command line or environment contains the agent's
// directory: the agent, plugins, supervisors and tasks.
func (a *agent) cleanup() {
	if a.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(a.dir, "agent.log"))
		a.t.Logf("the agent's log ends:\n%s", log[max(0, len(log)-4000):])
	}
	a.killAll()
	if err := allocdir.Detach(a.dir); err != nil { // secrets are mounts
		a.t.Log(err)
	}
	if err := os.RemoveAll(a.dir); err != nil {
		a.t.Log(err)
	}
}

// killAll kills every process of the agent. It repeats this for some seconds.
func (a *agent) killAll() {
	for until := time.Now().Add(5 * time.Second); time.Now().Before(until); {
		left := a.processes("")
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// processes returns the pids of this agent's processes whose command line contains
// what.
func (a *agent) processes(what string) []int {
	var out []int
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		cmdline, _ := os.ReadFile(d + "/cmdline")
		environ, _ := os.ReadFile(d + "/environ")
		line := strings.ReplaceAll(string(cmdline), "\x00", " ")
		if len(cmdline) > 0 && strings.Contains(line+string(environ), a.dir+"/") && strings.Contains(line, what) {
			if pid, err := strconv.Atoi(filepath.Base(d)); err == nil && pid != os.Getpid() {
				out = append(out, pid)
			}
		}
	}
	return out
}

// child returns the plugin's process, which is a child of the agent.
func (a *agent) child() int {
	for _, pid := range a.processes("driver-exec") {
		if parent(pid) == a.cmd.Process.Pid {
			return pid
		}
	}
	return 0
}

func parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	n, _ := strconv.Atoi(f[1])
	return n
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))[0] != "Z"
}

func (a *agent) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	a.t.Cleanup(cancel)
	return ctx
}

// eventually polls until ok returns true. It fails the test after limit, but never
// before patience; limit is for conditions that take longer.
func (a *agent) eventually(limit time.Duration, what string, ok func() bool) {
	a.t.Helper()
	limit = max(limit, patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		if time.Now().After(end) {
			a.t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// cli runs a drover command.
func (a *agent) cli(args ...string) (out string, code int) {
	a.t.Helper()
	return a.cliWithin(patience, args...)
}

// cliWithin does the same with a time limit.
func (a *agent) cliWithin(limit time.Duration, args ...string) (out string, code int) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_ADDR="+a.addr)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.t.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// must runs a command that must succeed.
func (a *agent) must(args ...string) string {
	a.t.Helper()
	out, code := a.cli(args...)
	if code != 0 {
		a.t.Fatalf("drover %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// run registers a job file and returns the evaluation.
func (a *agent) run(hcl string) string {
	a.t.Helper()
	draft, err := a.ParseJob(a.ctx(), &api.JobParseRequest{JobHCL: hcl, Canonicalize: true})
	if err != nil {
		a.t.Fatal(err)
	}
	r, err := a.RegisterJob(a.ctx(), &api.JobRegisterRequest{Job: draft})
	if err != nil {
		a.t.Fatal(err)
	}
	return r.EvalID
}

// onlyOnce is the part of a group that forbids restarts and reschedules.
const onlyOnce = `    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
`

// shell returns a job with one group that runs a script.
func shell(id, kind string, count int, group, script string) string {
	return fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    count = %d
    %s
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 10
        memory = 10
      }
    }
  }
}`, id, kind, count, group, "echo $$ > $NOMAD_TASK_DIR/pid; "+script)
}

// quick is an update block for tests.
const quick = `update {
  min_healthy_time  = "100ms"
  healthy_deadline  = "60s"
  progress_deadline = "75s"
}
`

// allocs returns the allocs of a job with a client status ("": all).
func (a *agent) allocs(job, status string) []*model.AllocListStub {
	all, _, err := a.JobAllocations(a.ctx(), job, true, nil)
	if err != nil {
		return nil
	}
	var out []*model.AllocListStub
	for _, x := range all {
		if status == "" || x.ClientStatus == status {
			out = append(out, x)
		}
	}
	return out
}

// await waits until a job has n allocs with a client status.
func (a *agent) await(job, status string, n int) []*model.AllocListStub {
	a.t.Helper()
	var got []*model.AllocListStub
	a.eventually(20*time.Second, fmt.Sprintf("%d %s allocs of %s", n, status, job), func() bool {
		got = a.allocs(job, status)
		return len(got) == n
	})
	return got
}

// path returns the path of a file in an alloc's directory.
func (a *agent) path(alloc, name string) string { return filepath.Join(a.data, "alloc", alloc, name) }

// pids returns the pid of each alloc's task. All of them must run.
func (a *agent) pids(allocs []*model.AllocListStub) map[string]int {
	a.t.Helper()
	out := map[string]int{}
	for _, x := range allocs {
		a.eventually(5*time.Second, "the task of "+x.ID+" has written its pid", func() bool {
			b, _ := os.ReadFile(a.path(x.ID, "t/local/pid"))
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			out[x.ID] = pid
			return err == nil && running(pid)
		})
	}
	return out
}

// get sends a GET request.
func (a *agent) get(path string) (int, string) {
	a.t.Helper()
	r, err := http.Get(a.addr + path)
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		a.t.Fatal(err)
	}
	return r.StatusCode, b.String()
}

func (a *agent) log() string {
	b, _ := os.ReadFile(filepath.Join(a.dir, "agent.log"))
	return string(b)
}
