// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"slices"
	"strings"
	"testing"
)

// doubters returns answers for three nodes: one trusts its servers, one does not,
// and one is down.
func doubters() map[string]string {
	const cluster = "/v1/client/cluster?node_id="
	return map[string]string{
		"GET /v1/nodes":                 `[{"ID":"aaaaaaaa-1","Name":"n1","Status":"ready"},{"ID":"bbbbbbbb-2","Name":"n2","Status":"ready"},{"ID":"cccccccc-3","Name":"n3","Status":"down"}]`,
		"GET " + cluster + "aaaaaaaa-1": `{"ClusterID":"x","Index":7,"Standing":"believed"}`,
		"GET " + cluster + "bbbbbbbb-2": `{"ClusterID":"x","Index":9,"Standing":"doubted"}`,
		"GET " + cluster + "cccccccc-3": `500!No path to node "cccccccc-3"`,
		"PUT " + cluster + "bbbbbbbb-2": `{"ClusterID":"","Index":0,"Standing":"believed"}`,
	}
}

func without(answers map[string]string, part string) map[string]string {
	for key := range answers {
		if strings.Contains(key, part) {
			delete(answers, key)
		}
	}
	return answers
}

func TestTrustOfAllChangesTheNodesThatDoubtAndNoOthers(t *testing.T) {
	f := newFake(t, doubters())
	r := f.at(t, nil, "node", "trust", "-all", "-yes")
	if r.code != 1 || !strings.Contains(r.err, "1 of 3 nodes could not be reached") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if want := []string{"PUT /v1/client/cluster?node_id=bbbbbbbb-2"}; !slices.Equal(f.writes(), want) {
		t.Errorf("it wrote %q", f.writes())
	}
	for _, want := range []string{`Node "bbbbbbbb" (n2): trusts them now`, "aaaaaaaa  n1    ready   believed", "bbbbbbbb  n2    ready   trusts them now", "down", `No path to node`} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
}

func TestTrustOfAllAsksAndChangesNothingWithoutAYes(t *testing.T) {
	f := newFake(t, doubters())
	if r := f.at(t, nil, "node", "trust", "-all"); r.code != 1 || !strings.Contains(r.err, "1 of 3 nodes do not trust") || !strings.Contains(r.err, "-yes") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if r := f.at(t, nil, "node", "trust", "-all", "-status"); r.code != 1 || !strings.Contains(r.out, "doubted") {
		t.Errorf("exit code %d: %s", r.code, r.out)
	}
	if len(f.writes()) != 0 {
		t.Errorf("it wrote %q", f.writes())
	}
}

func TestTrustOfAllChangesNothingWhereEveryNodeTrusts(t *testing.T) {
	answers := without(doubters(), "GET /v1/client/cluster?node_id=cccc")
	answers["GET /v1/client/cluster"] = `{"ClusterID":"x","Index":7,"Standing":"believed"}`
	f := newFake(t, without(answers, "node_id=bbbb"))
	if r := f.at(t, nil, "node", "trust", "-all"); r.code != 0 || strings.Contains(r.out, "==>") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
	if len(f.writes()) != 0 {
		t.Errorf("it wrote %q", f.writes())
	}
}

func TestTrustOfAllAsJSONSaysWhatBecameOfEachNode(t *testing.T) {
	f := newFake(t, doubters())
	r := f.at(t, nil, "node", "trust", "-all", "-yes", "-t", `{{range .}}{{.Name}} {{.Trusted}} {{.Error}};{{end}}`)
	if r.code != 1 || r.out != "n1 false ;n2 true ;n3 false No path to node \"cccccccc-3\";\n" {
		t.Errorf("exit code %d: %q", r.code, r.out)
	}
	if r := f.at(t, nil, "node", "trust", "-all", "-yes", "-json"); !strings.HasPrefix(r.out, "[\n") || !strings.Contains(r.out, `"Standing": "doubted"`) {
		t.Errorf("as JSON:\n%s", r.out)
	}
}

func TestTrustTakesAllNodesOrOne(t *testing.T) {
	f := newFake(t, doubters())
	for _, args := range [][]string{{"-all", "-node-id", "aaaa"}, {"-yes"}} {
		if r := f.at(t, nil, append([]string{"node", "trust"}, args...)...); r.code == 0 || len(f.writes()) != 0 {
			t.Errorf("%q: exit code %d, wrote %q", args, r.code, f.writes())
		}
	}
}
