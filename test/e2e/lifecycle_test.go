// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/test/e2e/harness"
)

// part returns a task block that runs a script; more is added to the block.
func part(name, script, more string) string {
	return fmt.Sprintf(`
    task %q {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", %q]
      }
      resources {
        cpu    = 10
        memory = 10
      }
      %s
    }`, name, script, more)
}

func lifecycle(hook string, sidecar bool) string {
	return fmt.Sprintf("lifecycle {\n hook = %q\n sidecar = %t\n}", hook, sidecar)
}

func job(id, kind string, parts ...string) string {
	return fmt.Sprintf("job %q {\n  type = %q\n  group \"g\" {\n    %s\n  }\n}", id, kind, strings.Join(parts, "\n"))
}

// steps returns the lines that the tasks of an alloc have written to their shared
// log.
func (a *agent) steps(alloc string) []string {
	b, _ := os.ReadFile(a.Path(alloc, "alloc/data/log"))
	return strings.Fields(string(b))
}

func (a *agent) stepsAre(alloc string, want ...string) {
	a.T.Helper()
	a.T.Cleanup(func() {
		if a.T.Failed() {
			a.T.Logf("the steps were %v", a.steps(alloc))
		}
	})
	a.Eventually(20*time.Second, fmt.Sprint("the steps are ", want), func() bool { return slices.Equal(a.steps(alloc), want) })
}

func TestTasksOfAGroupRunInTheOrderOfTheirLifecycle(t *testing.T) {
	a := newAgent(t).start()
	says := func(s string) string { return "echo " + s + " >> $NOMAD_ALLOC_DIR/data/log; " }
	stays := func(name string) string {
		return "trap '" + says(name+"-end") + "exit 0' INT TERM; " + says(name) + "while :; do sleep 0.05; done"
	}
	// A task that runs beside another one writes its line after the other one. The log may
	// not exist yet, which is no lines.
	after := func(name, own string) string {
		lines := func(of string) string { return "$(cat $NOMAD_ALLOC_DIR/data/log 2>/dev/null | grep -cx " + of + ")" }
		return "until [ " + lines(name) + " -gt " + lines(own) + " ]; do sleep 0.05; done; " + says(own)
	}
	a.Run(job("life", "service", harness.Quick,
		part("main", stays("main"), ""),
		part("init", after("proxy", "init"), lifecycle("prestart", false)),
		part("proxy", stays("proxy"), lifecycle("prestart", true)),
		part("hello", after("main", "hello"), lifecycle("poststart", false)),
		part("bye", says("bye"), lifecycle("poststop", false))))
	id := a.Await("life", model.AllocClientStatusRunning, 1)[0].ID
	first := []string{"proxy", "init", "main", "hello"}
	a.stepsAre(id, first...)
	a.deployed("life", 0, model.DeploymentStatusSuccessful)

	if err := a.RestartAllocation(a.Context(), id, "", true); err != nil {
		t.Fatal(err)
	}
	a.Eventually(20*time.Second, "all tasks ran again in their order", func() bool {
		s := a.steps(id)
		return len(s) == 10 && slices.Equal(s[6:], first) && slices.Contains(s[4:6], "main-end") && slices.Contains(s[4:6], "proxy-end")
	})
	a.Must("job", "stop", "-detach", "life")
	a.Await("life", model.AllocClientStatusComplete, 1)
	if got := a.steps(id)[10:]; !slices.Equal(got, []string{"main-end", "proxy-end", "bye"}) {
		t.Errorf("the end was %v", got)
	}
}

func TestAFailingPrestartTaskFailsItsAllocAndIsCleanedUpAfter(t *testing.T) {
	a := newAgent(t).start()
	once := "restart {\n attempts = 1\n delay = \"100ms\"\n mode = \"fail\"\n}\n"
	a.Run(job("bad", "batch", "reschedule {\n attempts = 0\n unlimited = false\n}",
		part("main", "echo main >> $NOMAD_ALLOC_DIR/data/log", ""),
		part("init", "echo init >> $NOMAD_ALLOC_DIR/data/log; exit 3", once+lifecycle("prestart", false)),
		part("bye", "echo bye >> $NOMAD_ALLOC_DIR/data/log", lifecycle("poststop", false))))
	id := a.Await("bad", model.AllocClientStatusFailed, 1)[0].ID
	a.stepsAre(id, "init", "init", "bye")
}

func TestAHungPrestartTaskBlocksNoOtherAlloc(t *testing.T) {
	a := newAgent(t).start()
	var hung []string
	for i := range 5 {
		hung = append(hung, part(fmt.Sprint("hung", i), "exec sleep 600", lifecycle("prestart", false)))
	}
	a.Run(job("stuck", "service", append(hung, part("main", "exec sleep 600", ""))...))
	a.Run(harness.Shell("web", "service", 3, "", "exec sleep 600"))
	a.PIDs(a.Await("web", model.AllocClientStatusRunning, 3))
	a.Must("job", "stop", "-detach", "stuck")
	a.Await("stuck", model.AllocClientStatusComplete, 1)
}

func TestTemplatesPayloadAndSecretsAreThereWhenATaskRuns(t *testing.T) {
	a := newAgent(t).start()
	task := part("t", "echo $$ > $NOMAD_TASK_DIR/pid; cat $NOMAD_TASK_DIR/in > $NOMAD_ALLOC_DIR/data/out; echo \" $GREETING $0\" >> $NOMAD_ALLOC_DIR/data/out; exec sleep 600", `
      dispatch_payload { file = "in" }
      template {
        destination = "secrets/env"
        env         = true
        data        = "GREETING=hello-{{ env \"NOMAD_TASK_NAME\" }}\n"
      }
      template {
        destination = "${NOMAD_SECRETS_DIR}/token"
        data        = "s3cret"
      }`)
	a.Run("job \"work\" {\n type = \"batch\"\n parameterized { payload = \"required\" }\n group \"g\" {\n" + task + "\n}\n}")
	payload := a.Write("payload", 0o600, "the payload")
	a.Must("job", "dispatch", "-detach", "work", payload)
	var x *model.AllocListStub
	a.Eventually(20*time.Second, "the dispatched job runs", func() bool {
		all, _, err := a.Allocations(a.Context(), nil)
		if err != nil || len(all) != 1 || all[0].ClientStatus != model.AllocClientStatusRunning {
			return false
		}
		x = all[0]
		return true
	})
	before := a.PIDs([]*model.AllocListStub{x})
	want := "the payload hello-t /bin/sh\n"
	a.Eventually(10*time.Second, "the task wrote what it has seen", func() bool {
		b, _ := os.ReadFile(a.Path(x.ID, "alloc/data/out"))
		return string(b) == want
	})
	a.secretsInMemory(x.ID)
	a.Kill()
	a.start()
	if got := a.PIDs([]*model.AllocListStub{x}); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("pids before %v, after %v", before, got)
	}
	a.secretsInMemory(x.ID)
	a.Eventually(10*time.Second, "the API says that it does not show secrets", func() bool {
		code, body := a.HTTPGet("/v1/client/fs/cat/" + x.ID + "?path=t/secrets/token")
		if strings.Contains(body, "s3cret") {
			t.Fatalf("the API shows a secret: %d %s", code, body)
		}
		return code == 403
	})
}

// secretsInMemory checks that the secrets of a task exist, on a tmpfs if tests can
// mount one on this machine.
func (a *agent) secretsInMemory(alloc string) {
	a.T.Helper()
	dir := a.Path(alloc, "t/secrets")
	if b, err := os.ReadFile(filepath.Join(dir, "token")); err != nil || string(b) != "s3cret" {
		a.T.Errorf("the secret is %q: %v", b, err)
	}
	if err := allocdir.ProbeSecrets(a.Dir); errdefs.IsUnimplemented(err) {
		return
	}
	var secrets, task syscall.Stat_t
	if err := syscall.Stat(dir, &secrets); err != nil {
		a.T.Fatal(err)
	}
	if err := syscall.Stat(filepath.Dir(dir), &task); err != nil {
		a.T.Fatal(err)
	}
	if secrets.Dev == task.Dev {
		a.T.Error("the secrets are on disk")
	}
}

// terminate sends SIGTERM to the agent, as a service manager does.
func (a *agent) terminate() {
	a.T.Helper()
	if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		a.T.Fatal(err)
	}
	select {
	case <-a.Done:
	case <-time.After(harness.Patience):
		a.T.Fatal("the agent does not end")
	}
}

func TestNoTaskIsTouchedByAHundredRestartsOfTheAgent(t *testing.T) {
	const restarts, least, limit = 100, 5, 45 * time.Second
	a := newAgent(t).start()
	a.Run(harness.Shell("long", "service", 20, harness.Quick, "exec sleep 600"))
	before := a.PIDs(a.Await("long", model.AllocClientStatusRunning, 20))
	begin, done := time.Now(), 0
	for done < restarts && (done < least || time.Since(begin) < limit) {
		// An orderly shutdown takes seconds if the previous agent was killed, because the
		// agent then waits for plugins that are not its children.
		if done%10 < 8 {
			a.Kill()
		} else {
			a.terminate()
		}
		if done%10 == 3 { // not even while the next agent is starting
			a.Launch()
			a.Kill()
		}
		a.start()
		done++
	}
	t.Logf("%d restarts in %s", done, time.Since(begin).Round(time.Millisecond))
	if got := a.PIDs(a.Await("long", model.AllocClientStatusRunning, 20)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("pids before %v, after %v", before, got)
	}
	for _, x := range a.Allocs("long", "") {
		if s := x.TaskStates["t"]; s.Restarts != 0 || s.Failed {
			t.Errorf("the task of %s was touched: %+v", x.ID, s)
		}
	}
	// All of them can still be stopped.
	a.Must("job", "stop", "-detach", "long")
	a.Await("long", model.AllocClientStatusComplete, 20)
	for _, pid := range before {
		if harness.Running(pid) {
			t.Errorf("%d runs after its job was stopped", pid)
		}
	}
}
