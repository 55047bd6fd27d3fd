// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// ProcessStats implements driver.ProcessMeter. It measures only resident memory. Without
// /proc it finds no process.
func (d *Driver) ProcessStats(_ context.Context, id string) (map[string]driver.PidStats, error) {
	t, err := d.task(id)
	if err != nil {
		return nil, err
	}
	out := map[string]driver.PidStats{}
	if _, ended := t.result(); ended {
		return out, nil
	}
	all, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range all {
		body, _ := os.ReadFile(file) // a process that has just ended yields nothing
		// The fields after the name, which is in parentheses: state, parent, group, ...
		fields := strings.Fields(string(body[strings.LastIndexByte(string(body), ')')+1:]))
		if len(fields) < 22 || fields[2] != strconv.Itoa(t.PID) || fields[0] == "Z" {
			continue
		}
		pages, _ := strconv.ParseUint(fields[21], 10, 64) // the kernel writes only digits
		out[filepath.Base(filepath.Dir(file))] = driver.PidStats{
			Memory: driver.MemoryStats{RSS: pages * uint64(os.Getpagesize()), Measured: []string{"RSS"}},
		}
	}
	return out, nil
}
