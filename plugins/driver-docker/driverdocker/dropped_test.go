// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/sdk/tasklog"
)

// TestTheUserIsToldOnceOfOutputThatCannotBeKept: the log file cannot be opened, since there is a
// folder of its name.
func TestTheUserIsToldOnceOfOutputThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "out.0", "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	cursor, err := os.Create(filepath.Join(dir, "cursor"))
	if err != nil {
		t.Fatal(err)
	}
	events := newBroadcast()
	heard := events.subscribe(t.Context())
	c := &copier{t: &task{id: "t", d: &daemon{events: events, log: hclog.NewNullLogger()}}, dir: root, cursor: cursor}
	for i, name := range []string{"out", "err"} {
		c.out[i] = &output{w: tasklog.New(root, name, tasklog.Limits{MaxFiles: 1})}
	}
	defer c.close()
	for range 3 {
		for _, o := range c.out {
			o.buf, c.pending = append(o.buf, "line\n"...), c.pending+5
		}
		c.flush()
	}
	if len(heard) != 1 {
		t.Fatalf("%d events", len(heard))
	}
	if e := <-heard; e.TaskID != "t" || e.Annotations["dropped_log_bytes"] != "5" || !strings.Contains(e.Message, "out.0") || !strings.HasSuffix(e.Message, "tasks must leave the folder alloc/logs as it is") {
		t.Errorf("%+v", e)
	}
	if c.t.dropped != 15 {
		t.Errorf("%d bytes count as dropped", c.t.dropped)
	}
}
