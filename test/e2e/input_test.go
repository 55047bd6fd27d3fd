// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

func TestBadInputIsRefusedInWordsAndTheAgentStaysUp(t *testing.T) {
	a := newAgent(t).start()
	broken := a.Write("broken.hcl", 0o600, "job \"x\" {\n  group \"g\" {\n    count = \n  }\n}\n")
	out, code := a.CLI("job", "run", broken)
	if code != 1 || !strings.Contains(out, "broken.hcl line 3") {
		t.Errorf("broken HCL: exit code %d, want 1, and file and line\n%s", code, out)
	}
	for name, text := range map[string]string{
		"a negative count":          strings.Replace(harness.Shell("neg", "service", 1, "", "true"), "count = 1", "count = -1", 1),
		"a group that leaves":       strings.Replace(harness.Shell("sep", "service", 1, "", "true"), `group "g"`, `group "../g"`, 1),
		"a task that leaves":        strings.Replace(harness.Shell("sep", "service", 1, "", "true"), `task "t"`, `task "../../t"`, 1),
		"an unknown type":           harness.Shell("kind", "nonsense", 1, "", "true"),
		"a missing driver argument": strings.Replace(harness.Shell("cfg", "service", 1, "", "true"), "driver = \"raw_exec\"", "", 1),
	} {
		file := a.Write("bad.hcl", 0o600, text)
		if out, code := a.CLI("job", "run", "-detach", file); code != 1 || len(out) < 20 {
			t.Errorf("%s: exit code %d, want 1 and a reason\n%s", name, code, out)
		}
	}
	for _, path := range []string{
		"/v1/job/none", "/v1/allocation/00000000-0000-0000-0000-000000000000", "/v1/node/00000000-0000-0000-0000-000000000000",
		"/v1/evaluation/00000000-0000-0000-0000-000000000000", "/v1/deployment/00000000-0000-0000-0000-000000000000",
		"/v1/client/fs/logs/00000000-0000-0000-0000-000000000000?task=t&type=stdout", "/v1/nonsense",
	} {
		if code, body := a.HTTPGet(path); code != 404 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	for what, body := range map[string]io.Reader{
		"no JSON": strings.NewReader("{"), "no job": strings.NewReader("{}"), "another type": strings.NewReader(`{"Job":[1]}`),
		"a huge body": io.MultiReader(strings.NewReader(`{"Job":{"ID":"`), io.LimitReader(endless('x'), 200<<20)),
	} {
		r, err := http.Post(a.Addr+"/v1/jobs", "application/json", body)
		if err != nil {
			if what != "a huge body" { // an agent may close the connection
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		_ = r.Body.Close()
		if r.StatusCode < 400 {
			t.Errorf("%s: status %d, want an error", what, r.StatusCode)
		}
	}
	if jobs, _, err := a.Jobs(a.Context(), nil); err != nil || len(jobs) != 0 {
		t.Errorf("jobs after all: %v, %v", jobs, err)
	}
	if !a.Alive() {
		t.Error("the agent is down")
	}
}

type endless byte

func (e endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

func TestAJobThatNoNodeCanRunWaitsAndSaysWhy(t *testing.T) {
	a := newAgent(t).start()
	for want, text := range map[string]string{
		"missing drivers":       strings.Replace(harness.Shell("driver", "service", 1, "", "true"), "raw_exec", "warp", 1),
		"${attr.kernel.name} =": harness.Shell("constraint", "service", 1, "constraint {\n attribute = \"${attr.kernel.name}\"\n value = \"plan9\"\n}\n", "true"),
	} {
		eval := a.Run(text)
		a.Eventually(5*time.Second, "eval status explains: "+want, func() bool {
			out, _ := a.CLI("eval", "status", eval)
			return strings.Contains(strings.ToLower(out), want)
		})
	}
}

func TestFilesOfAnAllocCanBeReadButNothingElse(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("files", "service", 1, "", "echo hello out; echo hello err >&2; echo data > $NOMAD_TASK_DIR/f; ln -s /etc/passwd $NOMAD_TASK_DIR/link; ln -s /etc $NOMAD_TASK_DIR/folder; echo token > $NOMAD_SECRETS_DIR/s; while [ ! -e $NOMAD_TASK_DIR/more ]; do sleep 0.02; done; echo more out; exec sleep 600"))
	id := a.Await("files", model.AllocClientStatusRunning, 1)[0].ID
	a.Eventually(5*time.Second, "alloc logs prints stdout", func() bool {
		out, _ := a.CLI("alloc", "logs", id)
		return strings.Contains(out, "hello out")
	})
	a.Eventually(harness.Patience, "alloc logs prints stderr", func() bool {
		out, _ := a.CLI("alloc", "logs", "-stderr", id)
		return strings.Contains(out, "hello err")
	})
	a.Eventually(harness.Patience, "the task has written all its files", func() bool {
		_, err := os.Stat(a.Path(id, "t/secrets/s"))
		return err == nil
	})
	if out := a.Must("alloc", "fs", id, "t/local/"); !strings.Contains(out, "pid") {
		t.Errorf("fs: %q", out)
	}
	if out := a.Must("alloc", "fs", id, "t/local/f"); out != "data\n" {
		t.Errorf("cat: %q", out)
	}
	for _, path := range []string{"../../../../etc/passwd", "/../../../etc/passwd", "t/../../../x", "t/local/link", "t/local/folder/passwd", "t/secrets/s", "t/secrets"} {
		for _, route := range []string{"cat", "readat", "ls", "stat", "stream"} {
			if strings.HasPrefix(path, "t/secrets") && (route == "ls" || route == "stat") {
				continue // names and sizes of secrets are told, as the reference does
			}
			code, body := a.HTTPGet("/v1/client/fs/" + route + "/" + id + "?offset=0&limit=10&follow=false&path=" + url.QueryEscape(path))
			// For cat and readat, the reference answers 200 with the error as the body.
			refused := code >= 400 || strings.Contains(body, "escapes") || strings.Contains(body, "prohibited") || strings.Contains(body, "no such file")
			if strings.Contains(body, "root:") || strings.Contains(body, "token") || !refused {
				t.Errorf("%s %s: %d %.100s", route, path, code, body)
			}
		}
	}
	follow(t, a, id)
}

// follow checks that alloc logs -f prints lines that are written later.
func follow(t *testing.T, a *agent, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	cmd := a.Command(ctx, "alloc", "logs", "-f", id)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), "more out") {
		n, err := out.Read(buf)
		got.Write(buf[:n])
		if err != nil {
			t.Errorf("alloc logs -f ended with %v after %q", err, got.String())
			break
		}
		if strings.Contains(got.String(), "hello out") {
			if err := os.WriteFile(a.Path(id, "t/local/more"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	cancel()
	_ = cmd.Wait() // it was killed
}

func TestAPluginThatEndsOrHangsLeavesTheAgentUp(t *testing.T) {
	a := newAgent(t)
	a.Plugin("driver-gone", "exit 3")
	a.Plugin("driver-hangs", "exec sleep 600")
	a.start()
	for _, name := range []string{"driver-gone", "driver-hangs"} {
		a.Eventually(40*time.Second, "the log names "+name, func() bool { return strings.Contains(a.Log(), name) })
	}
	a.Run(harness.Shell("ok", "service", 1, "", "exec sleep 600"))
	a.Await("ok", model.AllocClientStatusRunning, 1)
}
