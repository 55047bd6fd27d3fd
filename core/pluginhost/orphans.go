// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"context"
	"os"
	"slices"
	"sync"
)

// endUnreachable ends a process of an earlier host that cannot be reached any more,
// for example because its socket is gone. It does not touch another process that has
// reused its PID.
func (h *Host) endUnreachable(name string, rec record) {
	if rec.Started == "" || startOf(rec.PID) != rec.Started {
		return
	}
	h.cfg.Logger.Warn("a plugin process of before runs and cannot be reached, so it is ended; another one takes up its tasks", "plugin", name, "pid", rec.PID)
	if proc, err := os.FindProcess(rec.PID); err == nil {
		_ = proc.Kill() // an error means that it has ended
	}
}

// endOrphans ends the processes of plugins whose files went away while no agent
// ran.
func (h *Host) endOrphans(ctx context.Context, files []file) error {
	var ending sync.WaitGroup
	defer ending.Wait()
	for _, name := range h.catalog.names() {
		if slices.ContainsFunc(files, func(f file) bool { return f.name == name }) {
			continue
		}
		rec, err := h.recorded(ctx, name)
		if err != nil {
			return err
		}
		if rec == nil {
			continue
		}
		ending.Go(func() {
			h.endLeft(name, *rec)
			h.forgetProcess(name)
		})
	}
	return nil
}
