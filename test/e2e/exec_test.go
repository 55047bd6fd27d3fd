// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// isolated returns a job with isolated tasks. Their environment contains the agent's
// directory, by which the test finds them.
func (a *agent) isolated(id, kind string, count int, script string) string {
	return fmt.Sprintf(`job %q {
  type = %q
  group "g" {
    count = %d
    restart {
      attempts = 0
      mode     = "fail"
    }
    reschedule { attempts = 0 }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      env { OF = "%s/" }
      resources {
        cpu    = 10
        memory = 20
      }
    }
  }
}`, id, kind, count, script, a.Dir)
}

// withExec waits until the node can isolate tasks, or skips the test.
func (a *agent) withExec() *agent {
	a.T.Helper()
	if os.Geteuid() != 0 {
		a.T.Skip("isolated tasks need root")
	}
	a.start()
	a.Eventually(15*time.Second, "the node knows exec", func() bool {
		nodes, _, err := a.Nodes(a.Context(), nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		d := nodes[0].Drivers["exec"]
		if d != nil && !d.Detected && d.HealthDescription != "" {
			a.T.Skipf("tasks cannot be isolated here: %s", d.HealthDescription)
		}
		return d != nil && d.Healthy
	})
	return a
}

// sleepers returns the processes "sleep 601" of this agent.
func (a *agent) sleepers() []int {
	pids := slices.DeleteFunc(a.Processes("sleep 601"), func(pid int) bool {
		line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline") // if it is gone it does not match
		return !strings.HasPrefix(string(line), "sleep\x00601")
	})
	slices.Sort(pids)
	return pids
}

func TestIsolatedTasksRunAndCommandsRunInThem(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.isolated("batch", "batch", 1, `env | grep -q ^PATH= && [ "$NOMAD_ALLOC_DIR $NOMAD_TASK_DIR $NOMAD_SECRETS_DIR" = "/alloc /local /secrets" ] && id -un && [ ! -e `+a.Dir+` ]`))
	done := a.Await("batch", model.AllocClientStatusComplete, 1)
	if out, err := os.ReadFile(a.Path(done[0].ID, "alloc/logs/t.stdout.0")); err != nil || string(out) != "nobody\n" {
		t.Fatalf("the task wrote %q, %v", out, err)
	}
	a.Run(a.isolated("hog", "batch", 1, `x=$(head -c 200000000 /dev/zero | tr '\0' a)`))
	for _, x := range a.Await("hog", model.AllocClientStatusFailed, 1) {
		full, _, err := a.Allocation(a.Context(), x.ID, nil)
		if err != nil {
			t.Fatal(err)
		}
		if says := strings.Join(messages(full.TaskStates["t"]), "; "); exitCode(a, x.ID) != 137 || !strings.Contains(says, "OOM Killed") {
			t.Errorf("a task out of memory: %s", says)
		}
	}
	a.Run(a.isolated("web", "service", 1, "echo up; exec sleep 601"))
	web := a.Await("web", model.AllocClientStatusRunning, 1)
	a.Eventually(10*time.Second, "the task sleeps", func() bool { return len(a.sleepers()) == 1 })
	if out := a.Must("alloc", "exec", "-i=false", "-t=false", web[0].ID, "/bin/sh", "-c", "cat /proc/1/comm; id -un; pwd"); out != "drover-init\nnobody\n/\n" {
		t.Errorf("a command in the task wrote %q", out)
	}
	begin := time.Now()
	a.Must("job", "stop", "-detach", "web")
	a.Await("web", model.AllocClientStatusComplete, 1)
	if left := a.sleepers(); len(left) != 0 {
		t.Errorf("%v are left after %s", left, time.Since(begin))
	}
}

func TestIsolatedTasksSeeWhatTheOperatorShowsThem(t *testing.T) {
	a := newAgent(t)
	shown := a.Write("shown/note", 0o644, "from the machine\n")
	for _, dir := range []string{a.Dir, filepath.Dir(shown)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(filepath.Join(a.Dir, "agent.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	chroot := fmt.Sprintf("client {\n  chroot_env {\n    \"/bin\" = \"/bin\"\n    \"/lib\" = \"/lib\"\n    \"/lib64\" = \"/lib64\"\n    \"/usr\" = \"/usr\"\n    %q = \"/shown\"\n  }", filepath.Dir(shown))
	chroot += fmt.Sprintf("\n  host_volume \"notes\" { path = %q }\n  host_volume \"all\" { path = %q }", filepath.Dir(shown), a.Dir)
	a.Write("agent.hcl", 0o600, strings.Replace(string(raw), "client {", chroot, 1))
	a.withExec()
	volume := strings.NewReplacer(
		"group \"g\" {", "group \"g\" {\n    volume \"n\" {\n      type   = \"host\"\n      source = \"notes\"\n    }",
		"env {", "volume_mount {\n        volume      = \"n\"\n        destination = \"/srv/notes\"\n        read_only   = true\n      }\n      env {",
	).Replace(a.isolated("volume", "batch", 1, "cat /srv/notes/note; ! echo more >> /srv/notes/note"))
	if out := a.Must("job", "validate", a.Write("volume.nomad.hcl", 0o600, volume)); strings.Contains(out, "not acted on") {
		t.Errorf("the user is told that nothing acts on what is acted on: %s", out)
	}
	a.Run(volume)
	done := a.Await("volume", model.AllocClientStatusComplete, 1)
	if out, err := os.ReadFile(a.Path(done[0].ID, "alloc/logs/t.stdout.0")); err != nil || string(out) != "from the machine\n" {
		t.Errorf("the task with a volume wrote %q, %v", out, err)
	}
	// A volume that contains the agent's data does not show them.
	own, err := filepath.Rel(a.Dir, a.Path("${NOMAD_ALLOC_ID}", ""))
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("cat /srv/notes/%s/note && ! test -e /srv/notes/%s", filepath.Base(filepath.Dir(shown)), own)
	a.Run(strings.ReplaceAll(strings.Replace(volume, "cat /srv/notes/note; ! echo more >> /srv/notes/note", script, 1), `"notes"`, `"all"`))
	a.Await("volume", model.AllocClientStatusComplete, 2)
	a.Run(a.isolated("look", "batch", 1, "cat /shown/note; ls -d /etc /opt"))
	x := a.Await("look", model.AllocClientStatusFailed, 1)
	if out, err := os.ReadFile(a.Path(x[0].ID, "alloc/logs/t.stdout.0")); err != nil || string(out) != "from the machine\n" {
		t.Errorf("the task wrote %q, %v", out, err)
	}
}

func TestIsolatedTasksLiveOverKillsOfAgentPluginAndSupervisor(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.isolated("web", "service", 3, "exec sleep 601"))
	web := a.Await("web", model.AllocClientStatusRunning, 3)
	a.Eventually(10*time.Second, "the tasks sleep", func() bool { return len(a.sleepers()) == 3 })
	before := a.sleepers()
	supervisor := func() int {
		if pids := a.Processes("__drover-supervise loop"); len(pids) == 1 {
			return pids[0]
		}
		return 0
	}
	for what, find := range map[string]func() int{"plugin": a.Child, "supervisor": supervisor} {
		victim := 0
		a.Eventually(harness.Patience, "there is one "+what, func() bool {
			victim = find()
			return victim != 0
		})
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		a.Eventually(15*time.Second, "another "+what+" is in its place", func() bool {
			now := find()
			return now != 0 && now != victim
		})
		if got := a.sleepers(); !slices.Equal(got, before) {
			t.Fatalf("after a kill of the %s %v run, want %v", what, got, before)
		}
	}
	a.Kill()
	a.start()
	if got := a.sleepers(); !slices.Equal(got, before) {
		t.Fatalf("after a kill of the agent %v run, want %v", got, before)
	}
	a.Await("web", model.AllocClientStatusRunning, 3)
	a.Eventually(15*time.Second, "commands run in the old tasks", func() bool {
		out, code := a.CLI("alloc", "exec", "-i=false", "-t=false", web[0].ID, "cat", "/proc/1/comm")
		return code == 0 && out == "drover-init\n"
	})
	a.Must("job", "stop", "-detach", "web")
	a.Await("web", model.AllocClientStatusComplete, 3)
	if left := a.sleepers(); len(left) != 0 {
		t.Errorf("%v run after their job was stopped", left)
	}
}
