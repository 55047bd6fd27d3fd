// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package sandbox

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// TaskStats implements driver.Driver: one stream for all tasks.
func (d *Driver) TaskStats(ctx context.Context, interval time.Duration) (<-chan []driver.TaskStats, error) {
	return driver.Every(ctx, interval, d.sample)
}

// sample measures the memory of the tasks' main processes. Add other measurements
// here.
func (d *Driver) sample(context.Context) []driver.TaskStats {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []driver.TaskStats
	for id, t := range d.tasks {
		if t == nil || t.ended() {
			continue
		}
		s := driver.TaskStats{TaskID: id, Time: time.Now()}
		if body, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", t.PID)); err == nil {
			if fields := strings.Fields(string(body)); len(fields) > 1 {
				pages, _ := strconv.ParseUint(fields[1], 10, 64) // the kernel writes digits
				s.Memory.RSS, s.Memory.Measured = pages*uint64(os.Getpagesize()), []string{"RSS"}
			}
		}
		out = append(out, s)
	}
	return out
}

// TaskEvents implements driver.Driver. Events are for messages such as "downloading
// image"; this driver has none.
func (d *Driver) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	go func() {
		<-ctx.Done()
		close(out)
	}()
	return out, nil
}

// ExecTask implements driver.Driver. The command runs in the task's sandbox, as its user, with the same
// environment, directory and limits. Terminals are not supported.
func (d *Driver) ExecTask(ctx context.Context, id string, opts driver.ExecOptions, stream driver.ExecStream) (driver.ExitResult, error) {
	t, err := d.find(id)
	if err != nil {
		return driver.ExitResult{}, err
	}
	switch {
	case t.ended():
		return driver.ExitResult{}, errdefs.FailedPreconditionf("task %q does not run", id)
	case opts.TTY:
		return driver.ExitResult{}, errdefs.Unimplementedf("this driver has no terminals")
	case len(opts.Command) == 0:
		return driver.ExitResult{}, errdefs.InvalidArgumentf("no command given")
	}
	s, err := readSpec(t.Dir)
	if err != nil {
		return driver.ExitResult{}, errdefs.Internalf("read what the task is: %w", err)
	}
	state, err := t.execute(ctx, s, opts.Command, stream)
	if ctx.Err() != nil {
		return driver.ExitResult{}, ctx.Err()
	}
	if err != nil {
		return driver.ExitResult{}, err
	}
	return exitOf(state), nil
}
