// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"strings"
	"testing"
)

func TestTheMapShowsHowFullEachNodeIs(t *testing.T) {
	node := func(id, name, class, more string) string {
		return `{"ID":"` + id + `","Name":"` + name + `","NodeClass":"` + class + `","Status":"ready","SchedulingEligibility":"eligible"` + more +
			`,"NodeResources":{"Cpu":{"CpuShares":1000},"Memory":{"MemoryMB":2000}},"ReservedResources":{"Memory":{"MemoryMB":1000}}}`
	}
	alloc := func(id, node, cpu, memory string) string {
		return `{"ID":"` + id + `","NodeID":"` + node + `","AllocatedResources":{"Tasks":{"t":{"Cpu":{"CpuShares":` + cpu + `},"Memory":{"MemoryMB":` + memory + `}}}}}`
	}
	answers := world()
	answers["GET /v1/nodes"] = "[" + node("n1", "b", "big", "") + "," + node("n2", "a", "big", "") + "," + node("n3", "c", "", `,"Drain":true`) + "]"
	answers["GET /v1/allocations"] = "[" + alloc("a1", "n1", "100", "700") + "," + alloc("a2", "n1", "100", "100") + "," + alloc("a3", "n2", "50", "0") + "]"
	f := newFake(t, answers)
	r := f.at(t, nil, "node", "status", "-map")
	const want = `Nodes without class: 1 nodes, 0 allocations, cpu 0 %, memory 0 %
 --

Node class "big": 2 nodes, 3 allocations, cpu 12 %, memory 40 %
  5  80
`
	if r.code != 0 || !strings.HasPrefix(r.out, want) {
		t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
	}
	if r := f.at(t, nil, "node", "status", "-map", "-json"); !strings.Contains(r.out, `"Closed": "draining"`) || !strings.Contains(r.out, `"MemoryOf": 1000`) {
		t.Errorf("as JSON:\n%s", r.out)
	}
	if r := f.at(t, nil, "node", "status", "-map", "aaaa"); r.code == 0 || !strings.Contains(r.err, "-map shows all nodes") {
		t.Errorf("of one node: %d %s", r.code, r.err)
	}
}
