// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

// startingWorld has an alloc whose task is not running yet.
func startingWorld(now string) map[string]string {
	answers := world()
	path := "GET /v1/allocation/" + allocID
	answers[path] = strings.NewReplacer(`"State":"running"`, `"State":"pending"`, `"ClientStatus":"running"`, `"ClientStatus":"pending"`).Replace(answers[path])
	if now != "" {
		answers["GET /v1/client/allocation/"+allocID+"/tasks"] = now
	}
	return answers
}

func TestTheStatusOfAnAllocShowsWhatAPendingTaskWaitsFor(t *testing.T) {
	now := `{"Tasks":{"t":{"Start":{"Step":"driver start","Since":"2026-11-23T06:00:00Z","Deadline":"2026-11-23T06:31:00Z","Detail":"Downloading image: 34 % (120.0 MiB of 350.0 MiB)","LastError":"no route","Progress":{"Phase":"Downloading image","Done":125829120,"Total":367001600,"Unit":"bytes","At":"2026-11-23T06:00:09Z"}}}}}`
	r := newFake(t, startingWorld(now)).at(t, nil, "alloc", "status", "bbbb")
	if r.code != 0 || !strings.Contains(r.out, `Starting: step "driver start" since `) || !strings.Contains(r.out, ": Downloading image: 34 % (120.0 MiB of 350.0 MiB)\nThe start before failed: no route\n") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	r = newFake(t, startingWorld(now)).at(t, nil, "alloc", "status", "-json", "bbbb")
	if r.code != 0 || !strings.Contains(r.out, `"Done": 125829120`) {
		t.Errorf("-json: %d: %s%s", r.code, r.out, r.err)
	}
	// An older agent does not know the question.
	r = newFake(t, startingWorld("404!Invalid URL")).at(t, nil, "alloc", "status", "bbbb")
	if r.code != 0 || r.err != "" || strings.Contains(r.out, "Starting") {
		t.Errorf("with an older agent: %d: %s%s", r.code, r.out, r.err)
	}
	r = newFake(t, startingWorld("500!rpc error")).at(t, nil, "alloc", "status", "bbbb")
	if r.code != 0 || !strings.Contains(r.err, "Couldn't retrieve what the tasks do now: ") {
		t.Errorf("with a node that does not answer: %d: %s%s", r.code, r.out, r.err)
	}
}

func TestTheStatusOfARunningAllocShowsWhatIsFrozen(t *testing.T) {
	answers := world()
	answers["GET /v1/client/allocation/"+allocID+"/tasks"] = `{"Tasks":{"t":{"Paused":true}}}`
	r := newFake(t, answers).at(t, nil, "alloc", "status", "bbbb")
	if r.code != 0 || !strings.Contains(r.out, "Frozen: its driver holds the task where it is; drover alloc thaw lets it continue\n") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
	answers["GET /v1/client/allocation/"+allocID+"/tasks"] = `{"Tasks":{"t":{}}}`
	r = newFake(t, answers).at(t, nil, "alloc", "status", "bbbb")
	if r.code != 0 || strings.Contains(r.out, "Frozen") {
		t.Errorf("%d: %s%s", r.code, r.out, r.err)
	}
}
