// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
)

const (
	validate   = "PUT /v1/validate/job"
	mistyped   = `task group "g" -> task "t" -> config.comand: unknown attribute; did you mean "command"?`
	ignoresIt  = `task group "g" -> task "t" -> user: driver "raw_exec" does not act on it`
	driverFile = `job "web" {
  datacenters = ["*"]
  group "g" {
    task "t" {
      driver = "raw_exec"
      user   = "www"
      config {
        %s = "sleep"
      }
    }
  }
}
`
)

// finding returns a finding of an agent's answer as JSON.
func finding(severity, path, message string) string {
	b, _ := json.Marshal(api.JobFinding{TaskGroup: "g", Task: "t", Driver: "raw_exec", Path: path, Severity: severity, Message: message}) // it can always be marshaled
	return string(b)
}

func jobFileWith(t *testing.T, attribute string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "web.nomad.hcl")
	if err := os.WriteFile(path, []byte(strings.Replace(driverFile, "%s", attribute, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABadConfigIsRefusedWithItsLine(t *testing.T) {
	path := jobFileWith(t, "comand")
	const missing = `task group "g" -> task "t" -> config.command: required (program to run)`
	invalid := `{"ValidationErrors":[` + quoted(mistyped) + `,` + quoted(missing) + `],"Error":"2 errors occurred","Findings":[` +
		finding("error", "config.comand", mistyped) + `,` + finding("error", "config.command", missing) + `]}`
	for _, args := range [][]string{{"job", "run", path}, {"job", "plan", path}, {"job", "validate", path}} {
		f := newFake(t, map[string]string{validate: invalid, "PUT /v1/jobs": "500!2 errors occurred", "PUT /v1/job/web/plan": "500!2 errors occurred"})
		r := f.at(t, nil, args...)
		for _, want := range []string{
			"Error: web.nomad.hcl:8,9-15: Invalid config for driver \"raw_exec\"\n", `8:         comand = "sleep"`, mistyped,
			"Error: web.nomad.hcl:7,7-13: Invalid config", "config.command: required (program to run)",
		} {
			if !strings.Contains(r.err, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, r.err)
			}
		}
		if r.code == 0 || strings.Contains(r.err, "job validation failed") {
			t.Errorf("%v: exit code %d, said\n%s", args, r.code, r.err)
		}
	}
}

func TestARefusalForAnotherReasonIsToldAsItIs(t *testing.T) {
	path := jobFileWith(t, "command")
	for name, answer := range map[string]string{
		"no problem": `{}`, "only a warning": `{"Findings":[` + finding("warning", "user", ignoresIt) + `]}`, "an error": "500!ow", "no JSON": "<html>",
		"an older server": `{"ValidationErrors":["odd"],"Error":"1 error occurred"}`,
	} {
		f := newFake(t, map[string]string{validate: answer, "PUT /v1/jobs": "500!the quota is used up", "PUT /v1/job/web/plan": "500!the quota is used up"})
		for _, args := range [][]string{{"job", "run", path}, {"job", "plan", path}} {
			if r := f.at(t, nil, args...); r.code == 0 || !strings.Contains(r.err, "the quota is used up") {
				t.Errorf("%s, %v: exit code %d:\n%s", name, args, r.code, r.err)
			}
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string can always be marshaled
	return string(b)
}

func TestValidateSaysBesideWhatElseIsWrong(t *testing.T) {
	f := newFake(t, map[string]string{validate: `{"ValidationErrors":["Missing job type",` + quoted(mistyped) + `],"Error":"2 errors occurred","Findings":[` + finding("error", "config.comand", mistyped) + `]}`})
	r := f.at(t, nil, "job", "validate", jobFileWith(t, "comand"))
	if r.code != 1 || !strings.Contains(r.err, "web.nomad.hcl:8,9-15") || !strings.Contains(r.err, "job validation failed: 1 error occurred:\n\t* Missing job type") || strings.Count(r.err, "config.comand") != 1 {
		t.Errorf("exit code %d:\n%s", r.code, r.err)
	}
}

func TestAWarningOfADriverNamesItsLine(t *testing.T) {
	answer := `{"Warnings":` + quoted("2 warnings:\n\n* something else\n* "+ignoresIt) + `,"Findings":[` + finding("warning", "user", ignoresIt) + `]}`
	f := newFake(t, map[string]string{validate: answer, "PUT /v1/jobs": answer, "PUT /v1/job/web/plan": answer})
	path := jobFileWith(t, "command")
	for _, args := range [][]string{{"job", "validate", path}, {"job", "run", "-detach", path}, {"job", "plan", path}} {
		if r := f.at(t, nil, args...); r.code != 0 || !strings.Contains(r.err, "2 warnings:\n\n* something else\n* web.nomad.hcl:6,7-11: "+ignoresIt) {
			t.Errorf("%v: exit code %d:\n%s", args, r.code, r.err)
		}
	}
}

func TestJobDocumentsAreCheckedWithTheirLinesToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.json")
	if err := os.WriteFile(path, []byte(`{"Job": {"ID": "web", "Datacenters": ["*"], "TaskGroups": [{"Name": "g", "Tasks": [
  {"Name": "t", "Driver": "raw_exec", "Config": {
    "comand": "sleep"}}]}]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFake(t, map[string]string{
		"PUT /v1/jobs": "500!1 error occurred", validate: `{"ValidationErrors":[` + quoted(mistyped) + `],"Findings":[` + finding("error", "config.comand", mistyped) + `]}`,
	}).at(t, nil, "job", "run", "-json", path)
	if r.code != 1 || !strings.Contains(r.err, "web.json:3,5-13: Invalid config") || !strings.Contains(r.err, `3:     "comand": "sleep"`) {
		t.Errorf("exit code %d:\n%s", r.code, r.err)
	}
}
