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
	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/schema"
)

const (
	schemasOf  = "GET /v1/schemas/driver/raw_exec"
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

// knownDriver returns an agent's answer with the schema of raw_exec.
func knownDriver(t *testing.T) string {
	t.Helper()
	body := &driverschema.Body{Driver: "raw_exec", Capabilities: driverschema.Capabilities{Ignores: []string{"user"}, SendSignals: true, Exec: true}}
	body.Task.Attributes = []schema.Attribute{{Name: "command", Type: schema.String, Required: true, Description: "program to run"}}
	hash, data, err := body.Encode()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := json.Marshal(&api.DriverSchemas{Driver: "raw_exec", Nodes: 1, Schemas: []*api.DriverSchema{{
		Driver: "raw_exec", Hash: hash, Schema: data, Uses: []*model.DriverUse{{Driver: "raw_exec", Hash: hash, Datacenter: "dc1", NodePool: "default", Nodes: 1, Detected: true}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}

func jobFileWith(t *testing.T, attribute string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "web.nomad.hcl")
	if err := os.WriteFile(path, []byte(strings.Replace(driverFile, "%s", attribute, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestABadConfigIsRefusedWithItsLineBeforeTheJobIsSent(t *testing.T) {
	path := jobFileWith(t, "comand")
	for _, args := range [][]string{{"job", "run", path}, {"job", "plan", path}, {"job", "validate", path}} {
		f := newFake(t, map[string]string{schemasOf: knownDriver(t), validate: `{"ValidationErrors":[` + quoted(mistyped) + `,"task group \"g\" -> task \"t\" -> config.command: required (program to run)"],"Error":"2 errors occurred"}`})
		r := f.at(t, nil, args...)
		for _, want := range []string{
			"Error: web.nomad.hcl:8,9-15: Invalid config for driver \"raw_exec\"\n", `8:         comand = "sleep"`, mistyped,
			"Error: web.nomad.hcl:7,7-13: Invalid config", "config.command: required (program to run)",
		} {
			if !strings.Contains(r.err, want) {
				t.Errorf("%v does not say %q:\n%s", args, want, r.err)
			}
		}
		if r.code == 0 || args[1] != "validate" && len(f.writes()) > 0 || strings.Contains(r.err, "job validation failed") {
			t.Errorf("%v: exit code %d, sent %q, said\n%s", args, r.code, f.writes(), r.err)
		}
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s) // a string can always be marshaled
	return string(b)
}

func TestValidateSaysBesideWhatElseIsWrong(t *testing.T) {
	f := newFake(t, map[string]string{schemasOf: knownDriver(t), validate: `{"ValidationErrors":["Missing job type",` + quoted(mistyped) + `],"Error":"2 errors occurred"}`})
	r := f.at(t, nil, "job", "validate", jobFileWith(t, "comand"))
	if r.code != 1 || !strings.Contains(r.err, "web.nomad.hcl:8,9-15") || !strings.Contains(r.err, "job validation failed: 1 error occurred:\n\t* Missing job type") || strings.Count(r.err, "config.comand") != 1 {
		t.Errorf("exit code %d:\n%s", r.code, r.err)
	}
}

func TestAWarningOfADriverNamesItsLine(t *testing.T) {
	warnings := quoted("2 warnings:\n\n* something else\n* " + ignoresIt)
	f := newFake(t, map[string]string{
		schemasOf: knownDriver(t), validate: `{"Warnings":` + warnings + `}`,
		"PUT /v1/jobs": `{"Warnings":` + warnings + `}`, "PUT /v1/job/web/plan": `{"Warnings":` + warnings + `}`,
	})
	path := jobFileWith(t, "command")
	for _, args := range [][]string{{"job", "validate", path}, {"job", "run", "-detach", path}, {"job", "plan", path}} {
		if r := f.at(t, nil, args...); r.code != 0 || !strings.Contains(r.err, "2 warnings:\n\n* something else\n* web.nomad.hcl:6,7-11: "+ignoresIt) {
			t.Errorf("%v: exit code %d:\n%s", args, r.code, r.err)
		}
	}
}

func TestAServerThatKnowsNoSchemasHasTheLastWord(t *testing.T) {
	for name, answer := range map[string]string{"no such route": "404!not here", "an error": "500!ow", "no JSON": "<html>", "a newer form": `{"Schemas":[{"Schema":{"driver":7}}]}`} {
		f := newFake(t, map[string]string{schemasOf: answer, validate: `{"ValidationErrors":["odd"],"Error":"1 error occurred"}`})
		if r := f.at(t, nil, "job", "validate", jobFileWith(t, "comand")); r.code != 1 || !strings.Contains(r.err, "job validation failed: 1 error occurred") {
			t.Errorf("%s: exit code %d:\n%s", name, r.code, r.err)
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
	r := newFake(t, map[string]string{schemasOf: knownDriver(t)}).at(t, nil, "job", "run", "-json", path)
	if r.code != 1 || !strings.Contains(r.err, "web.json:3,5-13: Invalid config") || !strings.Contains(r.err, `3:     "comand": "sleep"`) {
		t.Errorf("exit code %d:\n%s", r.code, r.err)
	}
}
