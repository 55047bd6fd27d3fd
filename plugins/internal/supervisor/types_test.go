// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervisor_test

import (
	"encoding/json"
	"testing"

	"github.com/drover-project/drover/plugins/internal/supervisor"
)

// A supervisor adopts the tasks of earlier versions, whose records look like this.
func TestTheRecordOfAnIsolatedTaskKeepsItsForm(t *testing.T) {
	const record = `{"id":"t","path":"","args":["sh"],"env":null,"dir":"","logs":{"root":"/a","dir":"d","stdout":"o","stderr":"e"},` +
		`"sandbox":{"scratch":"/s","task_dir":"/t","shared_dir":"/a","command":"sh","bounding":[5],"limits":{"memory_max":7,"pids":9}}}`
	var s supervisor.Spec
	if err := json.Unmarshal([]byte(record), &s); err != nil {
		t.Fatal(err)
	}
	box := s.Sandbox
	if box == nil || box.TaskDir != "/t" || box.Command != "sh" || len(box.Bounding) != 1 || box.Limits.MemoryMax != 7 || box.Limits.Pids != 9 {
		t.Errorf("read as %+v", box)
	}
	body, err := json.Marshal(box)
	if want := record[len(record)-len(body)-1 : len(record)-1]; err != nil || string(body) != want {
		t.Errorf("written as %s, %v; want %s", body, err, want)
	}
}
