// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// TestAnExplanationSaysWhatWouldHelpAndThatHelps has a job that asks for more memory than
// the node has.
func TestAnExplanationSaysWhatWouldHelpAndThatHelps(t *testing.T) {
	a := newAgent(t).start()
	file := filepath.Join(a.Dir, "big.nomad.hcl")
	write := func(memory int) {
		job := strings.Replace(harness.Shell("big", "service", 1, "", "exec sleep 600"), "memory = 10", fmt.Sprintf("memory = %d", memory), 1)
		if err := os.WriteFile(file, []byte(job), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(50_000_000)
	if out, code := a.CLI("job", "plan", "-why", file); code != 1 || !strings.Contains(out, "too little memory") || !strings.Contains(out, "What would help") {
		t.Errorf("plan -why: %d\n%s", code, out)
	}
	a.CLI("job", "run", "-detach", file)
	var x model.Explanation
	a.Eventually(harness.Patience, "the job waits for room", func() bool {
		out, _ := a.CLI("job", "explain", "-json", "big")
		return json.Unmarshal([]byte(out), &x) == nil && len(x.Groups) == 1 && len(x.Groups[0].Remedies) == 1 && strings.Contains(fmt.Sprint(x.Says), "is blocked")
	})
	var memory int
	if _, err := fmt.Sscanf(x.Groups[0].Remedies[0].Change, `memory of task "t": %d instead of 50000000`, &memory); err != nil || x.Groups[0].Remedies[0].Missing != 0 {
		t.Fatalf("what would help: %+v", x.Groups[0].Remedies[0])
	}
	evals, _, err := a.JobEvaluations(a.Context(), "big", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range evals {
		if out := a.Must("eval", "explain", e.ID); !strings.Contains(out, "too little memory") {
			t.Errorf("eval explain of one that is %s:\n%s", e.Status, out)
		}
	}
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if out := a.Must("node", "explain", nodes[0].ID); !strings.Contains(out, `Group "g" of job "big" waits for room; here: too little memory`) {
		t.Errorf("node explain:\n%s", out)
	}
	write(memory + 1)
	if out, _ := a.CLI("job", "plan", file); !strings.Contains(out, "Failed to place") {
		t.Errorf("a smaller change would have done:\n%s", out)
	}
	write(memory)
	if out, code := a.CLI("job", "plan", "-why", file); code != 1 || !strings.Contains(out, "Where allocations would start:") {
		t.Errorf("plan -why of what helps: %d\n%s", code, out)
	}
	if out, code := a.CLI("job", "plan", "-node-down", nodes[0].ID[:8], "-count", "g=2", file); code != 1 || !strings.Contains(out, "node is down") || !strings.Contains(out, "Nothing of this was submitted") {
		t.Errorf("plan -node-down: %d\n%s", code, out)
	}
	if out, code := a.CLI("job", "plan", "-count", "x=2", file); code != 255 || !strings.Contains(out, `has no group "x"`) {
		t.Errorf("plan -count of no group: %d\n%s", code, out)
	}
	a.CLI("job", "run", "-detach", file)
	alloc := a.Await("big", model.AllocClientStatusRunning, 1)[0]
	if out := a.Must("alloc", "explain", alloc.ID); !strings.Contains(out, "was the best with a score of") {
		t.Errorf("alloc explain:\n%s", out)
	}
}

// TestACanaryOfASystemJobWaitsForItsPromotion uses one node, so that its canary takes the place
// of what runs there.
func TestACanaryOfASystemJobWaitsForItsPromotion(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("sys", "system", 1, oneCanary, "exec sleep 1000"))
	a.Await("sys", model.AllocClientStatusRunning, 1)
	a.Run(harness.Shell("sys", "system", 1, oneCanary, "exec sleep 1001"))
	deployment := func() *model.Deployment {
		list, _, err := a.Deployments(a.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			if d.JobVersion == 1 {
				return d
			}
		}
		return nil
	}
	a.Eventually(harness.Patience, "the canary is healthy and waits", func() bool {
		d := deployment()
		if d == nil {
			return false
		}
		out, _ := a.CLI("deployment", "explain", d.ID)
		return d.Status == model.DeploymentStatusRunning && strings.Contains(out, "its 1 canaries are healthy, and wait for drover deployment promote "+d.ID[:8])
	})
	a.Must("deployment", "promote", "-detach", deployment().ID)
	a.Eventually(harness.Patience, "the deployment is successful", func() bool { return deployment().Status == model.DeploymentStatusSuccessful })
}

// TestASavedSnapshotIsPlayed takes away the only node of a saved snapshot; the cluster itself
// does not notice.
func TestASavedSnapshotIsPlayed(t *testing.T) {
	a := newAgent(t).start()
	a.Run(harness.Shell("web", "service", 2, "", "exec sleep 600"))
	a.Await("web", model.AllocClientStatusRunning, 2)
	file := filepath.Join(a.Dir, "state.snap")
	a.Must("operator", "snapshot", "save", file)
	if out, code := a.CLI("operator", "simulate", file); code != 0 || !strings.Contains(out, "0 allocations would start, 0 would stop") || !strings.Contains(out, "Everything fits") {
		t.Errorf("as it is: %d\n%s", code, out)
	}
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	out, code := a.CLI("operator", "simulate", "-json", "-node-down", nodes[0].Name, file)
	var r struct {
		Stops    int
		Unplaced []struct {
			Job             string
			Missing, Before int
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 2 || r.Stops != 2 || len(r.Unplaced) != 1 || r.Unplaced[0].Job != "web" || r.Unplaced[0].Missing != 2 {
		t.Errorf("without its node: %d, %v\n%s", code, err, out)
	}
	if out, code := a.CLI("operator", "simulate", "-count", "web/g=4", file); code != 0 || !strings.Contains(out, "2 allocations would start") {
		t.Errorf("another count: %d\n%s", code, out)
	}
	if out, code := a.CLI("operator", "simulate", "-drain", "nobody", file); code != 1 || !strings.Contains(out, `the snapshot has no node "nobody"`) {
		t.Errorf("an unknown node: %d\n%s", code, out)
	}
	a.Await("web", model.AllocClientStatusRunning, 2)
}
