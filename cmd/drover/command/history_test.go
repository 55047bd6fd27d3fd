// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/drover-project/drover/cmd/drover/command"
)

const oldID = "eeee0000-0000-0000-0000-000000000009"

// collected is an agent whose state is empty, and whose history has a deployment and an
// evaluation.
func collected() map[string]string {
	d := `{"ID":"` + oldID + `","Namespace":"default","JobID":"web","JobVersion":3,"Status":"failed","StatusDescription":"no progress","CollectedAt":"2026-11-26T12:00:00Z"}`
	e := `{"ID":"` + oldID + `","Namespace":"default","JobID":"web","Status":"complete","Type":"service","Priority":50,"TriggeredBy":"job-register","CollectedAt":"2026-11-26T12:00:00Z"}`
	out := map[string]string{"GET /v1/deployments": "[]", "GET /v1/evaluations": "[]"}
	for _, q := range []string{"?history=true", "?history=true&namespace=%2A&prefix=eeee"} {
		out["GET /v1/deployments"+q], out["GET /v1/evaluations"+q] = "["+d+"]", "["+e+"]"
	}
	out["GET /v1/deployment/"+oldID+"?history=true"] = d
	out["GET /v1/evaluation/"+oldID+"?history=true&related=true"] = e
	return out
}

func TestWhatWasCollectedIsListedWithAllAndShownByItsID(t *testing.T) {
	for line, want := range map[string][]string{
		"deployment list":              {"No deployments found"},
		"deployment list -all":         {"Collected", "eeee0000", "no progress", "2026-11-26T12:00:00Z"},
		"deployment list -all -json":   {`"CollectedAt": "2026-11-26T12:00:00Z"`},
		"deployment status eeee":       {"Job Version = 3", "no progress", "It was collected at 2026-11-26T12:00:00Z"},
		"deployment status -json eeee": {`"CollectedAt": "2026-11-26T12:00:00Z"`},
		"deployment status " + oldID:   {"no progress"},
		"eval list -all":               {"Collected", "eeee0000", "2026-11-26T12:00:00Z"},
		"eval list -all -t {{range.}}{{.CollectedAt.Year}}{{end}}": {"2026"},
		"eval status eeee":              {"TriggeredBy", "It was collected at 2026-11-26T12:00:00Z"},
		"eval status -monitor " + oldID: {"It was collected at"},
		"deployment explain eeee":       {`Deployment ` + oldID + ` has ended with status "failed": no progress`, "It was collected at 2026-11-26T12:00:00Z, so it waits for nothing", "drover deployment status " + oldID},
		"eval explain eeee":             {`Evaluation ` + oldID + ` has ended with status "complete"`, "drover eval status " + oldID},
	} {
		r := newFake(t, collected()).at(t, nil, strings.Split(line, " ")...)
		if r.code != 0 {
			t.Errorf("%s: exit code %d, %s", line, r.code, r.err)
		}
		for _, text := range want {
			if !strings.Contains(strings.Join(strings.Fields(r.out), " "), text) {
				t.Errorf("%s does not say %q:\n%s", line, text, r.out)
			}
		}
	}
}

func TestTheEndOfACollectedDeploymentIsAnExitCodeToo(t *testing.T) {
	r := newFake(t, collected()).at(t, nil, "deployment", "status", "-monitor", "eeee")
	if r.code != 1 || !strings.Contains(r.err, "deployment failed: no progress") {
		t.Errorf("%d, %q", r.code, r.err)
	}
}

func TestFollowingAnEvaluationTellsWhatBecameOfADeploymentThatWasCollected(t *testing.T) {
	answers := collected()
	answers["GET /v1/evaluation/"+evalID] = `{"ID":"` + evalID + `","Namespace":"default","JobID":"web","Status":"complete","DeploymentID":"` + oldID + `"}`
	answers["GET /v1/evaluation/"+evalID+"/allocations"] = "[]"
	const past = "GET /v1/deployment/" + oldID + "?history=true&namespace=default"
	answers[past] = answers["GET /v1/deployment/"+oldID+"?history=true"]
	if r := execute(t, answers, "eval", "status", "-monitor", evalID); r.code != 1 || !strings.Contains(r.err, "deployment failed: no progress") {
		t.Errorf("one in the history: %d, %q", r.code, r.err)
	}
	delete(answers, past)
	if r := execute(t, answers, "eval", "status", "-monitor", evalID); r.code != 0 || !strings.Contains(r.out, `Deployment "eeee0000" was collected`) {
		t.Errorf("one that nobody knows any more: %d, %q, %q", r.code, r.out, r.err)
	}
}

func TestOnlyWhatIsInTheStateCanBeChanged(t *testing.T) {
	f := newFake(t, collected())
	for _, line := range []string{"deployment fail eeee", "deployment promote eeee", "eval delete eeee", "deployment status ffff", "eval status ffff"} {
		if r := f.at(t, nil, strings.Fields(line)...); r.code != 1 || !strings.Contains(r.err, "found; list them with") {
			t.Errorf("%s: %d, %q", line, r.code, r.err)
		}
	}
	if w := f.writes(); len(w) > 0 {
		t.Errorf("written: %q", w)
	}
}

func TestTheIDOfACollectedObjectIsCompletedWhereItCanBeShown(t *testing.T) {
	f := newFake(t, collected())
	f.answers["PUT /v1/search"] = []string{`{"Matches":{}}`}
	f.answers["GET /v1/deployments?history=true&prefix=eeee"] = f.answers["GET /v1/deployments?history=true"]
	for line, want := range map[string]string{"deployment status": oldID, "deployment fail": ""} {
		f.at(t, func(stdio *command.IO) {
			made, err := command.All(*stdio)[line]()
			if err != nil {
				t.Fatal(err)
			}
			got := made.(cli.CommandAutocomplete).AutocompleteArgs().Predict(complete.Args{All: []string{"eeee"}, Last: "eeee"})
			if strings.Join(got, " ") != want {
				t.Errorf("%s completes to %q, not to %q", line, got, want)
			}
		}, "version")
	}
}
