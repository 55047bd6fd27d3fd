// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux || darwin

package command_test

import (
	"fmt"
	"strings"
	"testing"
)

// pulls has the alloc of a deployment fetch its image until the deployment has ended.
func pulls(f *fake) {
	progress(f)
	f.answers["GET /v1/deployment/allocations/"+deplID] = []string{fmt.Sprintf(
		`[{"ID":%q,"Name":"web.g[0]","ClientStatus":"pending","DesiredStatus":"run"},{"ID":"ended","Name":"web.g[1]","ClientStatus":"running","DesiredStatus":"run"}]`, allocID)}
	var told []string
	for _, percent := range []int{10, 40, 90} {
		told = append(told, fmt.Sprintf(`{"Tasks":{"t":{"Start":{"Step":"driver start","Detail":"Downloading image: %d %% \u001b[2J"}},"idle":{},"quiet":{"Start":{"Step":"driver start"}}}}`, percent))
	}
	f.answers["GET /v1/client/allocation/"+allocID+"/tasks"] = told
}

func TestTheProgressOfAStartIsRewrittenOnATerminal(t *testing.T) {
	f := newFake(t, world())
	pulls(f)
	x := newTerminal(t)
	r := f.at(t, x.attach, "deployment", "status", "-monitor", "-wait", "0s", "-no-color", "dddd")
	shown := x.seen()
	for _, want := range []string{"Downloading image: 10 %", "Downloading image: 40 %", "Downloading image: 90 %", "\x1b[3A\x1b[J"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown:\n%q", want, shown)
		}
	}
	if r.code != 0 || strings.Contains(shown, "\x1b[2J") || strings.Contains(shown, "quiet") {
		t.Errorf("exit code %d:\n%q\n%s", r.code, shown, r.err)
	}
	if _, after, _ := strings.Cut(shown, "step 3"); strings.Contains(after, "Downloading") {
		t.Errorf("the line stays when the deployment has ended:\n%q", shown)
	}
}

func TestTheProgressOfAStartIsALineEveryFewSecondsElsewhere(t *testing.T) {
	f := newFake(t, world())
	pulls(f)
	r := f.at(t, nil, "deployment", "status", "-monitor", "-wait", "0s", "dddd")
	if r.code != 0 || strings.Count(r.out, `task "t": Downloading image: 10 %`) != 1 || strings.Contains(r.out, "40 %") || strings.Contains(r.out, "\x1b") {
		t.Errorf("exit code %d, want one line in the first seconds:\n%s", r.code, r.out)
	}
}

func TestAMonitorNeedsNoProgress(t *testing.T) {
	f := newFake(t, world())
	pulls(f)
	f.answers["GET /v1/client/allocation/"+allocID+"/tasks"] = []string{"500!No path to node"}
	r := f.at(t, nil, "deployment", "status", "-monitor", "-wait", "0s", "dddd")
	if r.code != 0 || strings.Contains(r.out+r.err, "No path") || strings.Count(r.out, "g: desired 3") != 4 {
		t.Errorf("exit code %d:\n%s%s", r.code, r.out, r.err)
	}
}

func TestAnEvaluationThatStaysPendingSaysWhy(t *testing.T) {
	f := newFake(t, world())
	pending := `{"ID":"` + evalID + `","Namespace":"default","JobID":"web","Status":"pending","ModifyIndex":7}`
	f.answers["GET /v1/evaluation/"+evalID] = []string{pending, pending, pending, pending, strings.Replace(pending, "pending", "complete", 1)}
	f.answers["GET /v1/evaluation/"+evalID+"/explain"] = []string{`{"Says":["The scheduler is paused."]}`}
	r := f.at(t, nil, "eval", "status", "-monitor", evalID)
	if r.code != 0 || strings.Count(r.out, `Evaluation "`+evalID[:8]+`" is pending. The scheduler is paused.`) != 1 {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}
