// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// withRealPlugin returns an agent with its own driver-exec file, which can be
// replaced over the API.
func withRealPlugin(t *testing.T, file string) *agent {
	a := newAgent(t)
	body, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a.Write("plugins/driver-exec", 0o755, string(body))
	config, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	a.Write("agent.hcl", 0o600, strings.Replace(string(config), "client {", "client {\n  plugin_install = true", 1))
	return a.start()
}

func (a *agent) execStatus() *model.AgentPlugin {
	a.T.Helper()
	p, err := a.AgentPlugin(a.Context(), "", "driver-exec")
	if err != nil {
		a.T.Fatal(err)
	}
	return p
}

func TestADriverIsUpgradedUnder200TasksAndABadVersionChangesNothing(t *testing.T) {
	const tasks = 200
	one, two := harness.BuildPlugin(t, "driver-exec", "1.0.0"), harness.BuildPlugin(t, "driver-exec", "2.0.0")
	a := withRealPlugin(t, one)
	a.Run(harness.Shell("held", "service", tasks, harness.Quick, "exec sleep 100000"))
	var allocs []*model.AllocListStub
	a.Eventually(time.Minute, "all tasks run", func() bool {
		allocs = a.Allocs("held", "running")
		return len(allocs) == tasks
	})
	pids := a.PIDs(allocs)
	a.Eventually(time.Minute, "the deployment is over", func() bool {
		d, _, err := a.JobDeployments(a.Context(), "held", false, nil)
		return err == nil && len(d) == 1 && d[0].Status == model.DeploymentStatusSuccessful
	})
	before, first := a.CountEvents("held"), a.execStatus()
	same := func(when string) {
		t.Helper()
		if now := a.PIDs(a.Allocs("held", "running")); !maps.Equal(now, pids) {
			t.Fatalf("%s: %d of %d tasks run with the pids of before", when, len(now), len(pids))
		}
		if n := a.CountEvents("held"); n != before {
			t.Errorf("%s: %d task events, before %d", when, n, before)
		}
	}

	stop := make(chan struct{})
	times := a.SampleTimes(allocs[0].ID, stop)
	a.Eventually(10*time.Second, "there are stats", func() bool {
		code, body := a.HTTPGet("/v1/client/allocation/" + allocs[0].ID + "/stats")
		return code == 200 && !strings.Contains(body, `"Timestamp":0`)
	})
	if out, err := a.Slow("plugin", "upgrade", "-version", "2.0.0", "driver-exec", two); err != nil || !strings.Contains(out, "200 tasks") {
		t.Fatalf("upgrade: %v\n%s", err, out)
	}
	now := a.execStatus()
	if now.Version != "2.0.0" || now.PID == first.PID || now.Restarts != 0 || now.Tasks != tasks {
		t.Fatalf("after the upgrade: %+v, before %+v", now, first)
	}
	same("after the upgrade")
	a.Eventually(10*time.Second, "the old process has ended", func() bool { return !harness.Running(first.PID) })
	same("after the end of the old process")
	since := time.Now().UnixNano()
	a.Eventually(harness.Patience, "there are newer stats", func() bool {
		var usage struct{ Timestamp int64 }
		err := a.AllocationStats(a.Context(), allocs[0].ID, &usage)
		return err == nil && usage.Timestamp > since
	})
	close(stop)
	var gap time.Duration
	for i, seen := 1, <-times; i < len(seen); i++ {
		gap = max(gap, time.Duration(seen[i]-seen[i-1]))
	}
	t.Logf("the longest time between two samples, of one a second, was %s", gap)

	for name, script := range map[string]string{"exits": "exit 1", "hangs": "exec sleep 1000"} {
		bad := a.Write("bad-"+name, 0o755, "#!/bin/sh\n"+script+"\n")
		if out, err := a.Slow("plugin", "upgrade", "driver-exec", bad); err == nil {
			t.Errorf("%s: it was accepted\n%s", name, out)
		}
		if st := a.execStatus(); st.PID != now.PID || st.Version != "2.0.0" || st.UpgradeError == "" {
			t.Errorf("%s: %+v", name, st)
		}
		same("after a version that " + name)
	}
	if out, err := a.Slow("plugin", "rollback", "driver-exec"); err != nil || !strings.Contains(out, "1.0.0") {
		t.Fatalf("rollback: %v\n%s", err, out)
	}
	same("after the rollback")
}

func TestAnAgentThatIsKilledInAnUpgradeGoesOnWithItsTasks(t *testing.T) {
	one, two := harness.BuildPlugin(t, "driver-exec", "1.0.0"), harness.BuildPlugin(t, "driver-exec", "2.0.0")
	a := withRealPlugin(t, one)
	a.Run(harness.Shell("held", "service", 5, harness.Quick, "exec sleep 100000"))
	pids := a.PIDs(a.Await("held", "running", 5))
	for i := range 3 {
		said := a.AmidUpgrade("driver-exec", one, two)
		<-time.After(time.Duration(i) * 40 * time.Millisecond) // a little later in each round
		a.Kill()
		t.Log(<-said)
		a.start()
		a.Eventually(15*time.Second, "all tasks run again as far as servers know", func() bool { return len(a.Allocs("held", "running")) == 5 })
		if now := a.PIDs(a.Allocs("held", "running")); !maps.Equal(now, pids) {
			t.Fatalf("other tasks run: %v, before %v", now, pids)
		}
		a.Eventually(15*time.Second, "one plugin process is left, with all tasks", func() bool {
			st, err := a.AgentPlugin(a.Context(), "", "driver-exec")
			return err == nil && len(a.PluginProcesses("driver-exec")) == 1 && harness.Running(st.PID) && st.Tasks == 5
		})
		t.Logf("it goes on as version %s", a.execStatus().Version)
	}
}

func TestPluginsAreChangedOverTheCommandLine(t *testing.T) {
	a := withRealPlugin(t, harness.BuildPlugin(t, "driver-exec", "1.0.0"))
	if out := a.Must("plugin", "list"); !strings.Contains(out, "driver-exec  1.0.0") || !strings.Contains(out, "raw_exec") {
		t.Errorf("list:\n%s", out)
	}
	if out := a.Must("plugin", "status", "-type", "csi"); !strings.Contains(out, "No CSI plugins") {
		t.Errorf("status -type csi:\n%s", out)
	}
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := a.Must("plugin", "status", "-node", nodes[0].ID[:8], "-t", "{{.State}} {{.Version}}", "driver-exec"); strings.TrimSpace(out) != "running 1.0.0" {
		t.Errorf("status: %q", out)
	}
	healthy := func() bool {
		n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
		return err == nil && n.Drivers["raw_exec"] != nil && n.Drivers["raw_exec"].Healthy
	}
	a.Must("plugin", "disable", "driver-exec")
	a.Eventually(10*time.Second, "servers hear of it", func() bool { return !healthy() })
	a.Must("plugin", "enable", "driver-exec")
	a.Eventually(10*time.Second, "it is enabled", healthy)
	a.Must("plugin", "reload", "driver-exec")
	a.Run(harness.Shell("one", "service", 1, harness.Quick, "exec sleep 100000"))
	a.Await("one", "running", 1)
	if out, code := a.CLI("plugin", "remove", "driver-exec"); code != 1 || !strings.Contains(out, "has 1 tasks") {
		t.Errorf("remove: exit code %d\n%s", code, out)
	}
	if out, code := a.CLI("plugin", "status", "nobody"); code != 1 || !strings.Contains(out, "no plugin") {
		t.Errorf("status of nobody: exit code %d\n%s", code, out)
	}
	a.Must("plugin", "remove", "-force", "driver-exec")
	if out := a.Must("plugin", "list"); !strings.Contains(out, "No plugins") {
		t.Errorf("list:\n%s", out)
	}
}

func TestPluginsAreNotInstalledWhereTheNodeForbidsIt(t *testing.T) {
	a := newAgent(t).start()
	out, code := a.CLI("plugin", "install", "-name", "x", "/bin/true")
	if code != 1 || !strings.Contains(out, "plugin_install = true") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	if out, code := a.CLI("plugin", "remove", "driver-exec"); code != 1 || !strings.Contains(out, "plugin_install = true") {
		t.Errorf("exit code %d\n%s", code, out)
	}
}
