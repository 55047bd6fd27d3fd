// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/cmd/drover/command"
)

const jobFile = `job "web" {
  group "g" {
    task "t" {
      driver = "raw_exec"
    }
  }
}
`

func TestPlanExitsWithOneIfAllocationsWouldChange(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   int
	}{
		"nothing changes": {`{"Annotations":{"DesiredTGUpdates":{"g":{"Ignore":1,"InPlaceUpdate":1}}},"JobModifyIndex":5}`, 0},
		"one is placed":   {`{"Annotations":{"DesiredTGUpdates":{"g":{"Place":1}}},"JobModifyIndex":5}`, 1},
		"one waits":       {`{"Annotations":{"DesiredTGUpdates":{"g":{}}},"Held":{"g":{"Allocs":1,"On":["job \"db\" to be healthy: it is stopped"]}},"JobModifyIndex":5}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, map[string]string{"PUT /v1/job/web/plan": c.answer}, "job", "plan", "-")
			if r.code != c.want || !strings.Contains(r.out, "-check-index 5") {
				t.Errorf("exit code %d, want %d; output:\n%s%s", r.code, c.want, r.out, r.err)
			}
		})
	}
	if r := execute(t, nil, "plan", "-"); r.code != 255 || !strings.Contains(r.err, "no answer for") {
		t.Errorf("an error gives exit code %d, want 255; %s", r.code, r.err)
	}
}

const deployed = `{"ID":"d1","Status":"%s","StatusDescription":"because","TaskGroups":{"g":{"DesiredTotal":1,"PlacedAllocs":1,"HealthyAllocs":1}}}`

func TestRunExitsByTheResultOfTheRollOut(t *testing.T) {
	for name, c := range map[string]struct {
		eval, deployment string
		want             int
		shows            string
	}{
		"healthy":       {`{"ID":"e1","Status":"complete","DeploymentID":"d1"}`, "successful", 0, "successful"},
		"failed":        {`{"ID":"e1","Status":"complete","DeploymentID":"d1"}`, "failed", 1, "deployment failed: because"},
		"not placed":    {`{"ID":"e1","Status":"complete","BlockedEval":"e2","FailedTGAllocs":{"g":{"NodesEvaluated":1,"ConstraintFiltered":{"${a} = 1":1}}}}`, "", 2, `Constraint "${a} = 1": 1 nodes excluded by filter`},
		"eval is wrong": {`{"ID":"e1","Status":"failed","StatusDescription":"maximum attempts reached"}`, "", 1, "maximum attempts"},
	} {
		t.Run(name, func(t *testing.T) {
			r := execute(t, map[string]string{
				"PUT /v1/jobs":                      `{"EvalID":"e1"}`,
				"GET /v1/evaluation/e1":             c.eval,
				"GET /v1/evaluation/e1/allocations": `[]`,
				"GET /v1/deployment/d1":             strings.Replace(deployed, "%s", c.deployment, 1),
			}, "run", "-")
			if r.code != c.want || !strings.Contains(r.out+r.err, c.shows) {
				t.Errorf("exit code %d, want %d; output:\n%s%s", r.code, c.want, r.out, r.err)
			}
			if strings.Contains(r.out, "\x1b") {
				t.Error("control characters appear where output is no terminal")
			}
		})
	}
}

func TestFlagsMayFollowArguments(t *testing.T) {
	r := execute(t, nil, "job", "run", "-", "-output")
	if r.code != 0 || !strings.Contains(r.out, `"ID": "web"`) {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
}

func TestPrefixOfSeveralIsRefused(t *testing.T) {
	allocs := `[{"ID":"abcd0000-0000-0000-0000-000000000001"},{"ID":"abcd0000-0000-0000-0000-000000000002"}]`
	r := execute(t, map[string]string{"GET /v1/allocations": allocs}, "alloc", "status", "abcd")
	if r.code != 1 || !strings.Contains(r.err, "matches several") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func TestMistakesInAJobFileShowTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.hcl")
	if err := os.WriteFile(path, []byte("job \"a\" {\n  grup \"x\" {\n  }\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := execute(t, nil, "job", "validate", path)
	if r.code != 1 || !strings.Contains(r.err, "on bad.hcl line 2") || !strings.Contains(r.err, `Did you mean "group"?`) {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func TestEveryCommandHasHelp(t *testing.T) {
	for name, make := range command.All(command.IO{}) {
		c, err := make()
		if err != nil {
			t.Fatal(err)
		}
		if c.Synopsis() == "" || !strings.Contains(c.Help(), "Usage: drover ") {
			t.Errorf("%s has no help", name)
		}
	}
}

// fullDisk is a file on a full disk.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestACommandWhoseOutputIsLostFails(t *testing.T) {
	for _, args := range [][]string{{"node", "status"}, {"node", "status", "-json"}, {"version"}} {
		r := newFake(t, map[string]string{"GET /v1/nodes": "[]"}).at(t, func(stdio *command.IO) { stdio.Out = fullDisk{} }, args...)
		if r.code != 1 || !strings.Contains(r.err, "the output could not be written: no space left on device") {
			t.Errorf("%v: %d, %q", args, r.code, r.err)
		}
	}
}

func TestAJobFileOfJSONIsNamedWithTheOptionThatReadsIt(t *testing.T) {
	for _, verb := range []string{"run", "plan", "validate"} {
		r := newFake(t, nil).at(t, with(` {"Job": {}}`, false), "job", verb, "-")
		if r.code == 0 || r.err != "Error: stdin is JSON; read it with -json\n" {
			t.Errorf("%s: %d, %q", verb, r.code, r.err)
		}
	}
}

func TestAnEmptyArgumentIsNotAPrefixOfTheOnlyJob(t *testing.T) {
	job := `{"ID":"web","Name":"web","Namespace":"default","Type":"batch"}`
	for _, line := range [][]string{
		{"job", "dispatch", ""}, {"job", "scale", "", "0"}, {"job", "restart", "-yes", ""}, {"job", "stop", "-yes", ""}, {"namespace", "status", ""},
	} {
		f := newFake(t, map[string]string{"GET /v1/jobs": "[" + job + "]", "GET /v1/job/web": job})
		r := f.at(t, nil, line...)
		if r.code != 1 || !strings.HasPrefix(r.err, "argument 1 is empty, perhaps a variable of the shell that is not set; usage: drover "+line[0]) || len(f.asked) > 0 {
			t.Errorf("%q: %d, %q, asked %q", line, r.code, r.err, f.asked)
		}
	}
}

func TestAPathWithoutItsSlashIsNotAHost(t *testing.T) {
	for _, path := range []string{"jobs?prefix=a.b", "v1/jobs?prefix=a.b"} {
		r := newFake(t, nil).at(t, nil, "operator", "api", path)
		if r.code != 1 || r.err != `Error: "`+path+`" is not a path of the API; use /v1/jobs?prefix=a.b`+"\n" {
			t.Errorf("%s: %d, %q", path, r.code, r.err)
		}
	}
	f := newFake(t, map[string]string{"GET /v1/jobs": "[]"})
	if r := f.at(t, nil, "operator", "api", strings.TrimPrefix(f.URL, "http://")+"/v1/jobs"); r.code != 0 || r.out != "[]" {
		t.Errorf("an address: %+v", r)
	}
}

func TestFieldsOfAJSONJobThatNoJobHasAreNamed(t *testing.T) {
	doc := `{"Job": {"ID": "web", "Nope": 1, "TaskGroups": [{"Name": "g", "Cuont": 5}]}}`
	for _, verb := range []string{"run -detach", "plan", "validate", "run -output"} {
		args := append([]string{"job"}, append(strings.Fields(verb), "-json", "-")...)
		r := newFake(t, map[string]string{"PUT /v1/jobs": `{"EvalID":""}`, "PUT /v1/job/web/plan": `{}`, "PUT /v1/validate/job": `{}`}).at(t, with(doc, false), args...)
		for _, field := range []string{"Nope", "TaskGroups[0].Cuont"} {
			if r.code != 0 || !strings.Contains(r.err, "Warning: stdin: the field "+field+" is not one of a job and is not acted on; is it misspelt?\n") {
				t.Errorf("%s: %d, %q", verb, r.code, r.err)
			}
		}
	}
	doc = `{"Job": {"ID": "web"` + manyFields(26) + `}}`
	if r := newFake(t, nil).at(t, with(doc, false), "job", "run", "-output", "-json", "-"); !strings.HasSuffix(r.err, "Warning: stdin: 6 more fields are not ones of a job\n") {
		t.Errorf("many: %q", r.err)
	}
}

func manyFields(n int) (out string) {
	for i := range n {
		out += fmt.Sprintf(`, "Nope%d": 1`, i)
	}
	return out
}
