// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// asUser runs a script as a user.
func asUser(uid uint32, script string) (string, error) {
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestNoOtherUserOfTheMachineReadsTheSecretsOfATask(t *testing.T) {
	a := newAgent(t)
	for dir := a.Data; dir != "/tmp" && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o711); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	a.withExec()
	kinds := []struct{ name, driver, user, is string }{
		{"isolated", "exec", "", "nobody"}, {"named", "exec", "games", "games"}, {"raw", "raw_exec", "games", "games"}, {"agent", "raw_exec", "", "root"},
	}
	var job strings.Builder
	job.WriteString("job \"secrets\" {\n  type = \"service\"\n  group \"g\" {\n")
	for _, k := range kinds {
		fmt.Fprintf(&job, `    task %q {
      driver = %q
      user   = %q
      config {
        command = "/bin/sh"
        args    = ["-c", "cat $NOMAD_SECRETS_DIR/token && id -un && touch $NOMAD_SECRETS_DIR/own $NOMAD_TASK_DIR/own $NOMAD_ALLOC_DIR/data/$NOMAD_TASK_NAME && echo done && exec sleep 601"]
      }
      template {
        data        = "token of the task\n"
        destination = "secrets/token"
      }
      resources {
        cpu    = 10
        memory = 20
      }
    }
`, k.name, k.driver, k.user)
	}
	job.WriteString("  }\n}\n")
	a.Run(job.String())
	x := a.Await("secrets", model.AllocClientStatusRunning, 1)[0]
	for _, k := range kinds {
		want := "token of the task\n" + k.is + "\ndone\n"
		a.Eventually(harness.Patience, "the task "+k.name+" uses its folders", func() bool {
			out, err := os.ReadFile(a.Path(x.ID, "alloc/logs/"+k.name+".stdout.0"))
			return err == nil && string(out) == want
		})
		secrets := a.Path(x.ID, k.name+"/secrets")
		const stranger = 54321
		for _, script := range []string{"cat " + secrets + "/token", "ls " + secrets, "touch " + secrets + "/new"} {
			if out, err := asUser(stranger, script); err == nil {
				t.Errorf("another user of the machine may: %s: %s", script, out)
			}
		}
		if _, err := asUser(stranger, "ls "+a.Path(x.ID, "alloc/data")); err != nil {
			t.Error("the test itself reaches nothing of the alloc, so it shows nothing")
		}
		if out := a.Must("alloc", "exec", "-i=false", "-t=false", "-task", k.name, x.ID, "/bin/sh", "-c", "cat $NOMAD_SECRETS_DIR/token"); out != "token of the task\n" {
			t.Errorf("a command in the task %s wrote %q", k.name, out)
		}
	}
}
