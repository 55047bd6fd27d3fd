// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"context"
	"os"
	"strconv"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/procfs"
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
	for _, pid := range procfs.PIDs() {
		p, err := procfs.Read(pid)
		if err != nil || p.Group != t.PID || p.Zombie {
			continue
		}
		out[strconv.Itoa(pid)] = driver.PidStats{
			Memory: driver.MemoryStats{RSS: p.Resident * uint64(os.Getpagesize()), Measured: []string{"RSS"}},
		}
	}
	return out, nil
}
