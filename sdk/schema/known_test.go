// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema_test

import (
	"reflect"
	"testing"

	"github.com/drover-project/drover/sdk/schema"
)

func TestWhatIsKnownOnlyAtTheStartIsLeftOut(t *testing.T) {
	got, open, err := rawExec().ApplyKnown(map[string]any{
		"command": "${NOMAD_TASK_DIR}/run", "args": []any{"-p", "${NOMAD_PORT_http}", "-v"}, "denied_envvars": []any{"A"},
		"oom_score_adj": "${meta.oom}", "cgroup_v1_override": []any{map[string]any{"pids": "${attr.x}"}},
		"mount": []any{map[string]any{"source": "/a"}, map[string]any{"source": "/b/${NOMAD_ALLOC_ID}", "readonly": true}},
		"gc":    map[string]any{"period": "${meta.gc}"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"denied_envvars": []any{"A"}, "gc": map[string]any{},
		"mount": []any{map[string]any{"source": "/a", "readonly": false}, map[string]any{"readonly": true}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	paths := schema.Open{"config.command", "config.args", "config.cgroup_v1_override", "config.oom_score_adj", "config.mount[1].source", "config.gc.period"}
	if !reflect.DeepEqual(open, paths) {
		t.Errorf("open: %q\nwant  %q", open, paths)
	}
	for path, want := range map[string]bool{
		"config.command": true, "config.args[1]": true, "config.mount[1].source": true, "config.mount[1]": true, "config.mount": true, "config": true,
		"config.mount[0].source": false, "config.mount[1].readonly": false, "config.mount[10]": false, "config.denied_envvars": false, "config.comm": false, "config.commands": false,
	} {
		if open.Concern(path) != want {
			t.Errorf("a finding at %s may depend on what is open: %t, want %t", path, !want, want)
		}
	}
}

func TestAKnownConfigIsAppliedAsEver(t *testing.T) {
	config := map[string]any{"command": "sleep", "mount": map[string]any{"source": "/a"}}
	got, open, err := rawExec().ApplyKnown(config)
	want, _ := rawExec().Apply(config)
	if err != nil || len(open) != 0 || open.Concern("config") || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, open %q, got %v want %v", err, open, got, want)
	}
	if _, _, err := rawExec().ApplyKnown(map[string]any{"args": "x"}); len(schema.ProblemsOf(err)) != 2 {
		t.Errorf("what does not fit the schema is an error, as ever: %v", err)
	}
}
