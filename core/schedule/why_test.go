// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schedule_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/schedule"
)

// explained plays a script and explains the job web.
func explained(t *testing.T, lines string) (*script, *model.GroupExplanation) {
	t.Helper()
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for line := range strings.Lines(lines) {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	groups := schedule.Explain(s.v, s.v.JobByID("default", "web"), s.now, &s.ids)
	if len(groups) != 1 {
		t.Fatalf("%d groups are explained", len(groups))
	}
	return s, groups[0]
}

func changes(g *model.GroupExplanation) string {
	var out []string
	for _, r := range g.Remedies {
		out = append(out, fmt.Sprintf("%s (%d)", r.Change, r.Missing))
	}
	return strings.Join(out, "; ")
}

func TestEveryNodeThatIsRefusedHasItsReason(t *testing.T) {
	_, g := explained(t, `
		node open class=big
		node full class=big cpu=50
		node small class=small cpu=50 mem=50
		node down status=down
		node draining drain
		node off eligibility=ineligible
		node elsewhere dc=dc2
		node reserved pool=gpu
		node bare class=big nodriver
		job web count=0 dc=dc1
		run web
	`)
	got := map[string]string{}
	for _, n := range g.Refused {
		got[n.ID] = n.Refused
	}
	for id, want := range map[string]string{
		"full": "too little cpu", "small": "too little cpu and memory", "down": "node is down", "draining": "node is draining", "off": "node is not eligible",
		"elsewhere": `datacenter "dc2" is not one of dc1`, "reserved": `node pool is "gpu", the job's is "default"`, "bare": "missing drivers",
	} {
		if got[id] != want {
			t.Errorf("node %s: %q, not %q", id, got[id], want)
		}
	}
	if len(g.Best) != 1 || g.Best[0].ID != "open" || g.Open != 1 || g.Nodes != 9 {
		t.Errorf("open: %+v, %d of %d", g.Best, g.Open, g.Nodes)
	}
	if g.Refused[0].ID != "full" {
		t.Errorf("the closest is %s", g.Refused[0].ID)
	}
	for _, c := range g.Classes {
		if c.Class == "big" && (c.Nodes != 3 || c.Open != 1 || c.Refused["too little cpu"] != 1 || c.Refused["missing drivers"] != 1) {
			t.Errorf("class big: %+v", c)
		}
	}
}

func TestDevicesThatAreInUseAreCounted(t *testing.T) {
	_, g := explained(t, `
		node none
		node used gpus=2
		job web count=2 gpus=1
		run web
	`)
	for _, n := range g.Refused {
		if n.ID == "used" && (len(n.Lacks) != 1 || n.Lacks[0] != (model.Lack{Resource: "nvidia/gpu", Needs: 1, Free: 0})) {
			t.Errorf("both GPUs are in use, and it is said %q: %+v", n.Refused, n.Lacks)
		}
	}
	if len(g.Refused) != 2 || g.Refused[0].ID != "used" {
		t.Errorf("the closest comes first: %+v", g.Refused)
	}
}

func TestTheScoreOfTheBestNodeIsThatOfTheSchedulerAndTheSumOfItsParts(t *testing.T) {
	s, g := explained(t, `
		node n1 cpu=1000 meta.rack=r1
		node n2 cpu=2000 meta.rack=r2
		node n3 cpu=3000 meta.rack=r1
		job web count=2 affinity=${meta.rack},r2,50 spread=${meta.rack}
		run web
		job web count=3 affinity=${meta.rack},r2,50 spread=${meta.rack}
	`)
	if g.Missing != 0 {
		t.Fatalf("missing: %d", g.Missing)
	}
	// What the explanation says comes after the third alloc, so the fourth goes to the best node.
	_ = s.line("run web")
	_ = s.line("job web count=4 affinity=${meta.rack},r2,50 spread=${meta.rack}")
	before := len(s.v.allocs)
	_ = s.line("run web")
	for _, a := range s.v.where(func(a *model.Allocation) bool { return a.Index() == 3 }) {
		if len(s.v.allocs) != before+1 || a.NodeID != g.Best[0].ID {
			t.Errorf("the scheduler takes %s, best is %s", a.NodeID, g.Best[0].ID)
		}
	}
	for _, n := range g.Best {
		sum, weights := 0.0, 0.0
		for _, p := range n.Parts {
			sum, weights = sum+p.Score*p.Weight, weights+p.Weight
		}
		if math.Abs(sum-n.Score) > 1e-9 || math.Abs(weights-1) > 1e-9 {
			t.Errorf("%s: %+v", n.ID, n)
		}
	}
}

func TestWhatWouldHelpIsTheSmallestChangeThatTheSchedulerAccepts(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"memory": {`
			node n1 mem=1000
			node n2 mem=700
			job web count=2 mem=800
			run web`, `memory of task "t": 700 instead of 800 (0); count: 1 instead of 2 (0)`},
		"cpu and memory together": {`
			node n1 mem=500 cpu=500
			job web count=1 mem=1000 cpu=1000
			run web`, `cpu of task "t": 500 instead of 1000, and memory of task "t": 500 instead of 1000 (0)`},
		"cpu and memory together, each by no more than it has to": {`
			node n1 mem=500 cpu=903
			job web count=1 mem=1000 cpu=1000
			run web`, `cpu of task "t": 903 instead of 1000, and memory of task "t": 500 instead of 1000 (0)`},
		"cpu and memory together, while another node lacks disk": {`
			node n1 mem=500 cpu=903
			node n2 mem=10 cpu=10 disk=1
			job web count=1 mem=1000 cpu=1000
			run web`, `cpu of task "t": 903 instead of 1000, and memory of task "t": 500 instead of 1000 (0)`},
		"a constraint": {`
			node n1 meta.rack=r1
			job web count=1 constraint=${meta.rack},=,r2
			run web`, `without the constraint ${meta.rack} = r2 of the group (0)`},
		"a node that somebody keeps free, and another pool and datacenter": {`
			node n1 eligibility=ineligible
			node n2 dc=dc2
			node n3 pool=gpu
			job web count=1 dc=dc1
			run web`, `make node n1 (n1) eligible (0); datacenters: dc2 too (0); node_pool: gpu instead of default (0)`},
		"another pool, to which what runs has to move too": {`
			node n1 cpu=150
			node n2 cpu=50 pool=gpu
			node n3 cpu=150 pool=gpu
			job web count=2 cpu=100
			run web
			alloc all status=running`, `cpu of task "t": 50 instead of 100 (0); count: 1 instead of 2 (0)`},
		"only a part": {`
			node n1 mem=1000
			job web count=3 mem=1000 constraint=,distinct_hosts
			run web`, `count: 1 instead of 3 (0)`},
		"a constraint without an attribute": {`
			node n1
			job web count=2 constraint=,distinct_hosts,true
			run web`, `without the constraint distinct_hosts true of the group (0); count: 1 instead of 2 (0)`},
		"nothing": {`
			node n1 nodriver
			job web count=1
			run web`, ``},
	} {
		s, g := explained(t, c.script)
		if got := changes(g); got != c.want {
			t.Errorf("%s:\n%s\nnot\n%s", name, got, c.want)
		}
		if n := len(s.v.where(func(a *model.Allocation) bool { return a.JobID == "web" })); n > 2 {
			t.Errorf("%s: an explanation has changed the state", name)
		}
	}
}

func TestASmallerCutWouldNotDo(t *testing.T) {
	_, g := explained(t, `
		node n1 mem=777
		job web count=1 mem=4000
		run web`)
	if got := changes(g); got != `memory of task "t": 777 instead of 4000 (0)` {
		t.Errorf("got %s", got)
	}
}

// counting counts how often the scheduler has run on a view.
type counting struct {
	*memView
	runs int
}

func (v *counting) Fleet() *model.Fleet { v.runs++; return v.memView.Fleet() }

func TestAnExplanationOfAHugeJobIsBounded(t *testing.T) {
	for _, c := range []struct{ count, least, most int }{{3, 10, 150}, {900000, 2, 5}} {
		s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
		for _, line := range []string{"node n1 mem=1000", fmt.Sprintf("job web count=%d mem=5000", c.count)} {
			if err := s.line(line); err != nil {
				t.Fatal(err)
			}
		}
		v := &counting{memView: s.v}
		g := schedule.Explain(v, s.v.JobByID("default", "web"), s.now, &s.ids)[0]
		if g.Missing != c.count || v.runs < c.least || v.runs > c.most {
			t.Errorf("%d allocs: missing %d, %d runs", c.count, g.Missing, v.runs)
		}
	}
}

func TestWhatWouldHelpIsAJobThatIsAccepted(t *testing.T) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range []string{"node n1 disk=250", "job web count=3"} {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		logs, least int
		want        string
	}{
		{50, 1, `size of ephemeral_disk: 83 instead of 100 (0); count: 2 instead of 3 (0)`},
		{90, 1, `count: 2 instead of 3 (0)`}, // a disk must hold the logs of a task
		{90, 3, ``},                          // and the count is that of the scaling policy at least
	} {
		job := s.v.JobByID("default", "web").Copy()
		job.TaskGroups[0].EphemeralDisk.SizeMB = 100
		job.TaskGroups[0].Tasks[0].LogConfig = &model.LogConfig{MaxFiles: c.logs / 10, MaxFileSizeMB: 10}
		job.TaskGroups[0].Scaling = &model.ScalingPolicy{Min: int64(c.least), Max: 5}
		if got := changes(schedule.Explain(s.v, job, s.now, &s.ids)[0]); got != c.want {
			t.Errorf("logs of %d MB, at least %d allocs:\n%s\nnot\n%s", c.logs, c.least, got, c.want)
		}
	}
}

func TestANodeSaysWhyItHasNoRoomForTheNewVersionOfASystemJob(t *testing.T) {
	_, g := explained(t, `
		node n1 cpu=1000
		node n2 cpu=4000
		job other count=1 cpu=500 constraint=${node.unique.name},=,n1
		run other
		job web type=system cpu=100
		run web
		alloc all status=running healthy=true
		job web type=system cpu=800
		run web`)
	if len(g.Refused) != 2 || g.Refused[0].ID != "n1" || g.Refused[0].Refused != "too little cpu" || g.Refused[0].Lacks[0] != (model.Lack{Resource: "cpu", Needs: 800, Free: 500}) ||
		g.Refused[1].Refused != schedule.ReasonHasOne {
		t.Errorf("%+v, %+v", g.Refused[0], g.Refused[1])
	}
	if got := changes(g); got != `cpu of task "t": 500 instead of 800 (0)` {
		t.Errorf("what helps: %s", got)
	}
}

func TestAnExplanationOfManyGroupsIsBounded(t *testing.T) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range []string{"node n1 mem=1000", "job web count=1 mem=5000"} {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	job := s.v.JobByID("default", "web").Copy()
	for i := range 1999 {
		tg := job.TaskGroups[0].Copy()
		tg.Name = fmt.Sprintf("g%d", i)
		job.TaskGroups = append(job.TaskGroups, tg)
	}
	v := &counting{memView: s.v}
	if g := schedule.Explain(v, job, s.now, &s.ids); len(g) != 50 || v.runs > 25 {
		t.Errorf("%d groups are explained with %d runs of the scheduler, each of which goes through 2,000 groups", len(g), v.runs)
	}
}

func TestAnExplanationNamesTheVolumeThatTheNextAllocLacks(t *testing.T) {
	s := &script{v: newMemView(), now: time.Unix(1_700_000_000, 0).UTC()}
	for _, line := range []string{"node n1", "job web count=2"} {
		if err := s.line(line); err != nil {
			t.Fatal(err)
		}
	}
	job := s.v.JobByID("default", "web").Copy()
	job.TaskGroups[0].Volumes = map[string]*model.VolumeRequest{"own": {Name: "own", Type: "csi", Source: "own", PerAlloc: true, AccessMode: model.AccessSingleNodeWriter, AttachmentMode: model.AttachmentFileSystem}}
	groups := schedule.Explain(s.v, job, s.now, &s.ids)
	if len(groups) != 1 || len(groups[0].Refused) != 1 || groups[0].Refused[0].Refused != "lacking: missing CSI volume(s) own[0]" {
		t.Errorf("got %+v", groups[0].Refused[0])
	}
}
