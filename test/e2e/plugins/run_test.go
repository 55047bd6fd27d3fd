// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"bufio"
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestATaskOfAPluginRunsWithoutAnAgentAndCtrlCStopsIt(t *testing.T) {
	a := newAgent(t) // it is not started; only its directory is used
	plugin := filepath.Join(a.Dir, "driver-shell")
	harness.Build(t, plugin, "test/e2e/harness/testdata/shellplugin")
	job := func(script string) string {
		return a.Write("job.hcl", 0o600, `job "j" {
  group "g" {
    task "t" {
      driver = "shell"
      config {
        script = "`+script+`"
      }
    }
  }
}`)
	}
	out, code := a.CLI("plugin", "run", plugin, job("echo hello; exit 3"))
	if code != 3 || !strings.Contains(out, "hello\n") {
		t.Errorf("exit code %d\n%s", code, out)
	}
	out, code = a.CLI("plugin", "run", "-json-events", plugin, job("echo hello"))
	if code != 0 || !strings.Contains(out, `"Kind":"stdout","Text":"hello"`) {
		t.Errorf("with -json-events: exit code %d\n%s", code, out)
	}
	if out, code := a.CLI("plugin", "run", plugin, job("echo hello")+".missing"); code != 1 || !strings.Contains(out, "job.hcl.missing") {
		t.Errorf("of no file: exit code %d\n%s", code, out)
	}

	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	cmd := a.Command(ctx, "plugin", "run", plugin, job("echo $$; sleep 1000"))
	cmd.Env = append(cmd.Env, "TMPDIR="+a.Dir) // by which the task's processes are found
	said, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(said).Scan() {
		t.Fatal("the task has printed nothing")
	}
	a.Eventually(harness.Patience, "the task runs", func() bool { return len(a.Processes("sleep 1000")) > 0 && len(a.Processes(plugin)) > 0 })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the code is that of a task that was ended
	a.Eventually(harness.Patience, "nothing of it is left", func() bool {
		return len(a.Processes("sleep 1000")) == 0 && len(a.Processes(plugin)) == 0
	})
}
