// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// execPlugin builds the real driver-exec with a version.
func execPlugin(t *testing.T, version string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "driver-exec-"+version)
	cmd := exec.Command("go", "build", "-o", path, "-ldflags", "-X github.com/drover-project/drover/plugins/driver-exec/driverexec.Version="+version, "../../plugins/driver-exec")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build driver-exec: %v\n%s", err, out)
	}
	return path
}

// withRealPlugin returns an agent with its own driver-exec file, which can be
// replaced over the API.
func withRealPlugin(t *testing.T, file string) *agent {
	a := newAgent(t)
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a.write("plugins/driver-exec", 0o755, string(body))
	config, err := os.ReadFile(filepath.Join(a.dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	a.write("agent.hcl", 0o600, strings.Replace(string(config), "client {", "client {\n  plugin_install = true", 1))
	return a.start()
}

// slow runs a drover command that may take long.
func (a *agent) slow(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_ADDR="+a.addr)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (a *agent) execStatus() *model.AgentPlugin {
	a.t.Helper()
	p, err := a.AgentPlugin(a.ctx(), "", "driver-exec")
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

// events counts the events of a job's tasks.
func (a *agent) events(job string) (n int) {
	a.t.Helper()
	for _, x := range a.allocs(job, "") {
		for _, s := range x.TaskStates {
			n += len(s.Events)
		}
	}
	return n
}

// sampled collects the times of an alloc's stats samples until stop is closed.
func (a *agent) sampled(alloc string, stop <-chan struct{}) <-chan []int64 {
	out := make(chan []int64, 1)
	go func() {
		var times []int64
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				out <- times
				return
			case <-tick.C:
			}
			var usage struct{ Timestamp int64 }
			if _, err := a.Get(context.Background(), "/v1/client/allocation/"+alloc+"/stats", nil, &usage); err != nil {
				continue
			}
			if n := len(times); usage.Timestamp != 0 && (n == 0 || times[n-1] != usage.Timestamp) {
				times = append(times, usage.Timestamp)
			}
		}
	}()
	return out
}

func TestADriverIsUpgradedUnder200TasksAndABadVersionChangesNothing(t *testing.T) {
	const tasks = 200
	one, two := execPlugin(t, "1.0.0"), execPlugin(t, "2.0.0")
	a := withRealPlugin(t, one)
	a.run(shell("held", "service", tasks, quick, "exec sleep 100000"))
	var allocs []*model.AllocListStub
	a.eventually(time.Minute, "all tasks run", func() bool {
		allocs = a.allocs("held", "running")
		return len(allocs) == tasks
	})
	pids := a.pids(allocs)
	a.eventually(time.Minute, "the deployment is over", func() bool {
		d, _, err := a.JobDeployments(a.ctx(), "held", false, nil)
		return err == nil && len(d) == 1 && d[0].Status == model.DeploymentStatusSuccessful
	})
	before, first := a.events("held"), a.execStatus()
	same := func(when string) {
		t.Helper()
		if now := a.pids(a.allocs("held", "running")); !maps.Equal(now, pids) {
			t.Fatalf("%s: %d of %d tasks run with the pids of before", when, len(now), len(pids))
		}
		if n := a.events("held"); n != before {
			t.Errorf("%s: %d task events, before %d", when, n, before)
		}
	}

	stop := make(chan struct{})
	times := a.sampled(allocs[0].ID, stop)
	a.eventually(10*time.Second, "there are stats", func() bool {
		code, body := a.get("/v1/client/allocation/" + allocs[0].ID + "/stats")
		return code == 200 && !strings.Contains(body, `"Timestamp":0`)
	})
	if out, err := a.slow("plugin", "upgrade", "-version", "2.0.0", "driver-exec", two); err != nil || !strings.Contains(out, "200 tasks") {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	now := a.execStatus()
	if now.Version != "2.0.0" || now.PID == first.PID || now.Restarts != 0 || now.Tasks != tasks {
		t.Fatalf("after the upgrade: %+v, before %+v", now, first)
	}
	same("after the upgrade")
	a.eventually(10*time.Second, "the old process has ended", func() bool { return !running(first.PID) })
	same("after the end of the old process")
	since := time.Now().UnixNano()
	a.eventually(patience, "there are newer stats", func() bool {
		var usage struct{ Timestamp int64 }
		err := a.AllocationStats(a.ctx(), allocs[0].ID, &usage)
		return err == nil && usage.Timestamp > since
	})
	close(stop)
	var gap time.Duration
	for i, seen := 1, <-times; i < len(seen); i++ {
		gap = max(gap, time.Duration(seen[i]-seen[i-1]))
	}
	t.Logf("the longest time between two samples, of one a second, was %s", gap)

	for name, script := range map[string]string{"exits": "exit 1", "hangs": "exec sleep 1000"} {
		bad := a.write("bad-"+name, 0o755, "#!/bin/sh\n"+script+"\n")
		if out, err := a.slow("plugin", "upgrade", "driver-exec", bad); err == nil {
			t.Errorf("%s: it was accepted\n%s", name, out)
		}
		if st := a.execStatus(); st.PID != now.PID || st.Version != "2.0.0" || st.UpgradeError == "" {
			t.Errorf("%s: %+v", name, st)
		}
		same("after a version that " + name)
	}
	if out, err := a.slow("plugin", "rollback", "driver-exec"); err != nil || !strings.Contains(out, "1.0.0") {
		t.Fatalf("rollback: %v\n%s", err, out)
	}
	same("after the rollback")
}

func TestAnAgentThatIsKilledInAnUpgradeGoesOnWithItsTasks(t *testing.T) {
	one, two := execPlugin(t, "1.0.0"), execPlugin(t, "2.0.0")
	a := withRealPlugin(t, one)
	a.run(shell("held", "service", 5, quick, "exec sleep 100000"))
	pids := a.pids(a.await("held", "running", 5))
	for i := range 3 {
		said := a.amidUpgrade("driver-exec", one, two)
		<-time.After(time.Duration(i) * 40 * time.Millisecond) // a little later in each round
		a.kill()
		t.Log(<-said)
		a.start()
		a.eventually(15*time.Second, "all tasks run again as far as servers know", func() bool { return len(a.allocs("held", "running")) == 5 })
		if now := a.pids(a.allocs("held", "running")); !maps.Equal(now, pids) {
			t.Fatalf("other tasks run: %v, before %v", now, pids)
		}
		a.eventually(15*time.Second, "one plugin process is left, with all tasks", func() bool {
			st, err := a.AgentPlugin(a.ctx(), "", "driver-exec")
			return err == nil && len(a.pluginProcesses("driver-exec")) == 1 && running(st.PID) && st.Tasks == 5
		})
		t.Logf("it goes on as version %s", a.execStatus().Version)
	}
}

// amidUpgrade starts upgrades of a plugin between two versions until it observes
// both processes at once: a quick upgrade may be over too soon. The channel receives
// the command's output.
func (a *agent) amidUpgrade(plugin, one, two string) <-chan string {
	a.t.Helper()
	for range 10 {
		p, err := a.AgentPlugin(a.ctx(), "", plugin)
		if err != nil {
			a.t.Fatal(err)
		}
		file := two
		if p.Version == "2.0.0" {
			file = one
		}
		said := make(chan string, 1)
		go func() {
			out, _ := a.slow("plugin", "upgrade", plugin, file) // it may be killed
			said <- out
		}()
		both := func() bool { return len(a.pluginProcesses(plugin)) == 2 }
		a.eventually(patience, "the new process is there", func() bool { return both() || len(said) > 0 })
		if len(said) == 0 {
			return said
		}
		a.t.Logf("an upgrade was over before it was seen: %s", <-said)
		a.eventually(patience, "the process before has ended", func() bool { return !both() })
	}
	a.t.Fatal("no upgrade was seen in ten")
	return nil
}

// pluginProcesses returns the processes of a plugin. The supervisor, which has
// arguments, is excluded.
func (a *agent) pluginProcesses(plugin string) (out []int) {
	for _, pid := range a.processes(plugin) {
		args, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && strings.HasSuffix(string(args), "/"+plugin+"\x00") && strings.Count(string(args), "\x00") == 1 {
			out = append(out, pid)
		}
	}
	return out
}

func TestPluginsAreChangedOverTheCommandLine(t *testing.T) {
	a := withRealPlugin(t, execPlugin(t, "1.0.0"))
	a.eventually(15*time.Second, "the node has its session", func() bool {
		code, _ := a.get("/v1/agent/plugins")
		return code == 200
	})
	if out := a.must("plugin", "list"); !strings.Contains(out, "driver-exec  1.0.0") || !strings.Contains(out, "raw_exec") {
		t.Errorf("list:\n%s", out)
	}
	if out := a.must("plugin", "status", "-type", "csi"); !strings.Contains(out, "No CSI plugins") {
		t.Errorf("status -type csi:\n%s", out)
	}
	nodes, _, err := a.Nodes(a.ctx(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := a.must("plugin", "status", "-node", nodes[0].ID[:8], "-t", "{{.State}} {{.Version}}", "driver-exec"); strings.TrimSpace(out) != "running 1.0.0" {
		t.Errorf("status: %q", out)
	}
	healthy := func() bool {
		n, _, err := a.Node(a.ctx(), nodes[0].ID, nil)
		return err == nil && n.Drivers["raw_exec"] != nil && n.Drivers["raw_exec"].Healthy
	}
	a.must("plugin", "disable", "driver-exec")
	a.eventually(10*time.Second, "servers hear of it", func() bool { return !healthy() })
	a.must("plugin", "enable", "driver-exec")
	a.eventually(10*time.Second, "it is enabled", healthy)
	a.must("plugin", "reload", "driver-exec")
	a.run(shell("one", "service", 1, quick, "exec sleep 100000"))
	a.await("one", "running", 1)
	if out, code := a.cli("plugin", "remove", "driver-exec"); code != 1 || !strings.Contains(out, "has 1 tasks") {
		t.Errorf("remove: exit code %d\n%s", code, out)
	}
	if out, code := a.cli("plugin", "status", "nobody"); code != 1 || !strings.Contains(out, "no plugin") {
		t.Errorf("status of nobody: exit code %d\n%s", code, out)
	}
	a.must("plugin", "remove", "-force", "driver-exec")
	if out := a.must("plugin", "list"); !strings.Contains(out, "No plugins") {
		t.Errorf("list:\n%s", out)
	}
}

func TestPluginsAreNotInstalledWhereTheNodeForbidsIt(t *testing.T) {
	a := newAgent(t).start()
	out, code := a.cli("plugin", "install", "-name", "x", "/bin/true")
	if code != 1 || !strings.Contains(out, "plugin_install = true") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code := a.cli("plugin", "remove", "driver-exec"); code != 1 || !strings.Contains(out, "plugin_install = true") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
