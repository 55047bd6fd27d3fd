// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"sort"
	"strconv"
	"strings"
)

// LogFile is one file of a task's rotated output.
type LogFile struct {
	Name string // relative to the alloc's directory
	Num  int
	Size int64
}

// LogFiles returns a task's log files of a kind ("stdout" or "stderr"), oldest first.
func (d Dir) LogFiles(task, kind string) ([]LogFile, error) {
	entries, err := d.List(SharedDir + "/" + LogsDir)
	if err != nil {
		return nil, err
	}
	prefix := task + "." + kind + "."
	var out []LogFile
	for _, e := range entries {
		num, ok := strings.CutPrefix(e.Name, prefix)
		if !ok || e.IsDir {
			continue
		}
		n, err := strconv.Atoi(num)
		if err != nil || n < 0 {
			continue
		}
		out = append(out, LogFile{Name: SharedDir + "/" + LogsDir + "/" + e.Name, Num: n, Size: e.Size})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Num < out[j].Num })
	return out, nil
}
