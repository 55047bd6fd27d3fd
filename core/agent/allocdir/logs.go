// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"sort"
	"strconv"
	"strings"
)

// notRegular are the letters of fs.FileMode for all that is no file with contents: folders, links,
// pipes, sockets and devices.
const notRegular = "dLpSD"

// LogFile is one file of a task's rotated output.
type LogFile struct {
	Name string // relative to the alloc's directory
	Num  int
	Size int64
}

// LogFiles returns a task's log files of a kind ("stdout" or "stderr"), oldest first. Tasks
// can write to the folder, so a link or a pipe in it that has the name of a log file is not
// one.
func (d Dir) LogFiles(task, kind string) ([]LogFile, error) {
	entries, err := d.List(SharedDir + "/" + LogsDir)
	if err != nil {
		return nil, err
	}
	prefix := task + "." + kind + "."
	var out []LogFile
	for _, e := range entries {
		num, ok := strings.CutPrefix(e.Name, prefix)
		if !ok || strings.ContainsAny(e.FileMode, notRegular) {
			continue
		}
		n, err := strconv.Atoi(num)
		if err != nil || n < 0 || strconv.Itoa(n) != num {
			continue
		}
		out = append(out, LogFile{Name: SharedDir + "/" + LogsDir + "/" + e.Name, Num: n, Size: e.Size})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Num < out[j].Num })
	return out, nil
}
