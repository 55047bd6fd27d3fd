// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/procfs"
)

// leftoverPause is the pause between two searches for processes after a kill.
const leftoverPause = 10 * time.Millisecond

// endLeftovers kills the processes that a failed start of a task left behind: those
// that were started after it and have the task's environment, and helpers of the
// plugin whose command line names the task's directory.
func (d *Drivers) endLeftovers(ctx context.Context, task *driver.TaskConfig, begun time.Time) (killed int) {
	marks := leftoverMarks{dir: task.TaskDir}
	if task.AllocID != "" && task.Name != "" {
		marks.task = []string{"NOMAD_ALLOC_ID=" + task.AllocID, "NOMAD_TASK_NAME=" + task.Name}
	}
	marks.plugin = d.cfg.Mark
	since, ok := ticksAt(begun)
	if !ok {
		return 0 // this system does not say when processes began
	}
	tick := time.NewTicker(leftoverPause)
	defer tick.Stop()
	for {
		left := marks.find(since)
		if len(left) == 0 {
			return killed
		}
		for _, p := range left {
			d.log.Warn("a process of a task that its driver did not end is killed", "alloc_id", task.AllocID, "task", task.Name, "pid", p.Pid)
			if p.Kill() == nil { // an error means that it has ended
				killed++
			}
			_ = p.Release()
		}
		select {
		case <-ctx.Done():
			return killed
		case <-tick.C:
		}
	}
}

// leftoverMarks identify the processes of one task.
type leftoverMarks struct {
	task   []string // variables of the task's own processes; nil for none
	plugin string   // variable of plugins' helpers, with a directory that theirs is or is in
	dir    string   // directory of the task, which its helpers have in their command line
}

// young is a process that was started after the task's start began.
type young struct {
	*os.Process
	parent int
	left   bool // the start left it behind, or it is a descendant of such a process
}

// find returns the matching processes that were started at the tick or later, with all
// their descendants, because these cannot be identified after their parent was killed.
func (m leftoverMarks) find(since uint64) []*os.Process {
	all := map[int]*young{}
	for _, pid := range procfs.PIDs() {
		if pid == os.Getpid() {
			continue
		}
		if _, began, ok := birthOf(pid); !ok || began < since {
			continue // as a rule, all but a few
		}
		p, err := os.FindProcess(pid) // opened before its environment is read, so that a reused pid is not killed
		if err != nil {
			continue
		}
		if parent, began, ok := birthOf(pid); ok && began >= since {
			all[pid] = &young{Process: p, parent: parent, left: m.fit(pid)}
			continue
		}
		_ = p.Release() // it is none of ours
	}
	for more := true; more; {
		more = false
		for _, y := range all {
			if parent := all[y.parent]; !y.left && parent != nil && parent.left {
				y.left, more = true, true
			}
		}
	}
	var out []*os.Process
	for _, y := range all {
		if y.left {
			out = append(out, y.Process)
			continue
		}
		_ = y.Release() // it is none of ours
	}
	return out
}

func (m leftoverMarks) fit(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	body, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return false
	}
	env, ofPlugin := map[string]bool{}, false
	for one := range bytes.SplitSeq(body, []byte{0}) {
		env[string(one)] = true
		after, ok := strings.CutPrefix(string(one), m.plugin)
		ofPlugin = ofPlugin || ok && (after == "" || after[0] == '/')
	}
	if len(m.task) > 0 {
		all := true
		for _, v := range m.task {
			all = all && env[v]
		}
		if all {
			return true
		}
	}
	if m.dir == "" || !ofPlugin {
		return false
	}
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	return err == nil && namesDir(string(cmdline), m.dir)
}

// namesDir reports whether a command line names the directory or something in it.
func namesDir(cmdline, dir string) bool {
	for rest := cmdline; ; {
		_, after, found := strings.Cut(rest, dir)
		if !found {
			return false
		}
		if after == "" || strings.ContainsRune("/\x00\"', ", rune(after[0])) {
			return true
		}
		rest = after
	}
}

// birthOf returns the parent of a process and the tick at which it was started. A
// zombie has none.
func birthOf(pid int) (parent int, ticks uint64, ok bool) {
	p, err := procfs.Read(pid)
	if err != nil || p.Zombie {
		return 0, 0, false
	}
	return p.Parent, p.Start, true
}

// ticksAt returns the tick of a point in time of this process, or one shortly before
// it.
func ticksAt(t time.Time) (uint64, bool) {
	body, err := os.ReadFile("/proc/uptime")
	if err != nil {
		return 0, false
	}
	text, _, _ := strings.Cut(string(body), " ")
	up, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	const slack = 2
	return uint64(max(0, (up-time.Since(t).Seconds())*procfs.TicksPerSecond-slack)), true
}

// bornBefore reports whether a process was certainly born before a time; each was if it is
// zero.
func bornBefore(pid int, t time.Time) bool {
	if t.IsZero() {
		return true
	}
	limit, ok := ticksAt(t)
	_, born, alive := birthOf(pid)
	return ok && alive && born < limit
}
