// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/test/e2e/harness"
)

// judgedJob has a script, of which only code of the driver can say that it is empty.
const judgedJob = `job "judged" {
  type = "batch"
  group "g" {
    task "t" {
      driver = "shell"
      config {
        script = "SCRIPT"
      }
      resources {
        cpu    = 50
        memory = 16
      }
    }
  }
}
`

// judged returns an agent whose cluster knows that the driver shell has rules.
func judged(t *testing.T) *agent {
	t.Helper()
	a := newAgent(t)
	harness.Build(t, filepath.Join(a.Dir, "plugins", "driver-shell"), "test/e2e/harness/testdata/shellplugin")
	a.start()
	a.Eventually(20*time.Second, "the schema of shell is known", func() bool { return a.known("shell") == 1 })
	return a
}

func TestARuleOfADriversCodeRefusesAJobWithItsLineBeforeItIsRegistered(t *testing.T) {
	a := judged(t)
	hcl := strings.Replace(judgedJob, "SCRIPT", " ", 1)
	path := a.Write("judged.nomad.hcl", 0o600, hcl)
	for _, c := range []struct {
		code int
		args []string
	}{{1, []string{"job", "validate", path}}, {255, []string{"job", "plan", path}}, {1, []string{"job", "run", path}}} {
		out, code := a.CLI(c.args...)
		for _, want := range []string{
			`Error: judged.nomad.hcl:7,9-15: Invalid config for driver "shell"`, `   7:         script = " "`,
			`task group "g" -> task "t" -> config.script: is empty; write what /bin/sh`, // the line is wrapped here
		} {
			if code != c.code || !strings.Contains(out, want) {
				t.Errorf("%v: exit code %d, want %d, and %q:\n%s", c.args, code, c.code, want, out)
			}
		}
	}
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: hcl})
	if err != nil {
		t.Fatal(err)
	}
	const text = `task group "g" -> task "t" -> config.script: is empty; write what /bin/sh should run`
	if v, err := a.ValidateJob(a.Context(), draft); err != nil || len(v.ValidationErrors) != 1 || v.ValidationErrors[0] != text {
		t.Errorf("validated over HTTP: %+v, %v", v, err)
	}
	if _, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: draft}); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("registered over HTTP: %v", err)
	}
	if _, _, err := a.Job(a.Context(), "judged", nil); !errdefs.IsNotFound(err) {
		t.Errorf("the job is registered: %v", err)
	}
	a.Must("job", "validate", a.Write("later.nomad.hcl", 0o600, strings.Replace(judgedJob, "SCRIPT", "$${meta.what_to_run}", 1)))
}

func TestADriverWhoseValidationHangsIsNamedAndHoldsNobodyUp(t *testing.T) {
	a := judged(t)
	path := a.Write("judged.nomad.hcl", 0o600, strings.Replace(judgedJob, "SCRIPT", "exit 0 # hang in validation", 1))
	for _, args := range [][]string{{"job", "validate", path}, {"job", "plan", path}, {"job", "run", "-detach", path}} {
		begun := time.Now()
		out, _ := a.CLI(args...)
		if want := `judged.nomad.hcl:5,7-13: task group "g" -> task "t" -> driver: driver "shell" could not be asked what is wrong with the config`; !strings.Contains(out, want) {
			t.Errorf("%v does not say %q:\n%s", args, want, out)
		}
		if took := time.Since(begun); took > 40*time.Second { // two and those of a loaded machine; other calls have a minute
			t.Errorf("%v took %s", args, took)
		}
	}
	a.Await("judged", "complete", 1)
}
