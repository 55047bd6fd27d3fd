// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// Command returns a drover command that talks to the agent.
func (a *Agent) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(Bin(), "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_ADDR="+a.Addr)
	return cmd
}

// CLI runs a drover command and returns its output and exit code.
func (a *Agent) CLI(args ...string) (out string, code int) {
	a.T.Helper()
	return a.CLIWithin(2*Patience, args...) // commands wait for tasks on a loaded machine
}

// CLIWithin does the same with a time limit.
func (a *Agent) CLIWithin(limit time.Duration, args ...string) (out string, code int) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := a.Command(ctx, args...)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		a.T.Fatal(err)
	}
	return string(b), cmd.ProcessState.ExitCode()
}

// Must runs a command that must succeed.
func (a *Agent) Must(args ...string) string {
	a.T.Helper()
	out, code := a.CLI(args...)
	if code != 0 {
		a.T.Fatalf("drover %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// HTTPGet sends a GET request.
func (a *Agent) HTTPGet(path string) (int, string) {
	a.T.Helper()
	r, err := http.Get(a.Addr + path)
	if err != nil {
		a.T.Fatal(err)
	}
	defer r.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(r.Body); err != nil {
		a.T.Fatal(err)
	}
	return r.StatusCode, b.String()
}

// Run registers a job file and returns the evaluation.
func (a *Agent) Run(hcl string) string {
	a.T.Helper()
	draft, err := a.ParseJob(a.Context(), &api.JobParseRequest{JobHCL: hcl, Canonicalize: true})
	if err != nil {
		a.T.Fatal(err)
	}
	r, err := a.RegisterJob(a.Context(), &api.JobRegisterRequest{Job: draft})
	if err != nil {
		a.T.Fatal(err)
	}
	return r.EvalID
}

// Allocs returns the allocs of a job with a client status ("": all).
func (a *Agent) Allocs(job, status string) []*model.AllocListStub {
	all, _, err := a.JobAllocations(a.Context(), job, true, nil)
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

// Await waits until a job has n allocs with a client status.
func (a *Agent) Await(job, status string, n int) []*model.AllocListStub {
	a.T.Helper()
	var got []*model.AllocListStub
	a.Eventually(20*time.Second, fmt.Sprintf("%d %s allocs of %s", n, status, job), func() bool {
		got = a.Allocs(job, status)
		return len(got) == n
	})
	return got
}

// PIDs returns the pid of each alloc's task. All of them must run.
func (a *Agent) PIDs(allocs []*model.AllocListStub) map[string]int {
	a.T.Helper()
	out := map[string]int{}
	for _, x := range allocs {
		a.Eventually(5*time.Second, "the task of "+x.ID+" has written its pid", func() bool {
			b, _ := os.ReadFile(a.Path(x.ID, "t/local/pid"))
			pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
			out[x.ID] = pid
			return err == nil && Running(pid)
		})
	}
	return out
}

// Shell returns a job with one group that runs a script.
func Shell(id, kind string, count int, group, script string) string {
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
