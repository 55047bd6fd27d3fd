// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// CheckKillSignal refuses a signal that is none when the task starts, rather than
// when it is to stop.
func CheckKillSignal(task *driver.TaskConfig) error {
	if _, err := SignalNumber(task.KillSignal, defaultStopSignal); err != nil {
		return fmt.Errorf("kill_signal: %w", err)
	}
	return nil
}

// Environment makes the process's environment, without what is denied.
func Environment(env map[string]string, denied []string) []string {
	out := make([]string, 0, len(env))
	for name, value := range env {
		if !slices.ContainsFunc(denied, func(pattern string) bool {
			ok, err := path.Match(pattern, name)
			return ok && err == nil || pattern == name
		}) {
			out = append(out, name+"="+value)
		}
	}
	slices.Sort(out)
	return out
}

// Logs tells the supervisor where the task's output goes: beneath the alloc's
// directory, which is the last that no task can change.
func Logs(task *driver.TaskConfig) (supervisor.Logs, error) {
	l := supervisor.Logs{
		Disabled: task.Logs.Disabled, Root: task.AllocDir,
		Stdout: filepath.Base(task.Logs.StdoutPath), Stderr: filepath.Base(task.Logs.StderrPath),
		MaxFiles: task.Logs.MaxFiles, MaxFileBytes: int64(task.Logs.MaxFileSizeMB) << 20,
	}
	if l.Disabled {
		return l, nil
	}
	dir := filepath.Dir(task.Logs.StdoutPath)
	rel, err := filepath.Rel(task.AllocDir, dir)
	if err != nil || !filepath.IsLocal(rel) || filepath.Dir(task.Logs.StderrPath) != dir {
		return l, fmt.Errorf("the log files %s and %s must be in one directory beneath %s", task.Logs.StdoutPath, task.Logs.StderrPath, task.AllocDir)
	}
	l.Dir = filepath.ToSlash(rel)
	return l, nil
}
