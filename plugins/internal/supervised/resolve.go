// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// CheckKillSignal rejects an invalid kill signal when the task starts instead of
// when it is stopped.
func CheckKillSignal(task *driver.TaskConfig) error {
	if _, err := SignalNumber(task.KillSignal, defaultStopSignal); err != nil {
		return fmt.Errorf("kill_signal: %w", err)
	}
	return nil
}

// Environment builds the process's environment without the denied variables.
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

// Secrets builds the part of the process's environment that is secret, without the denied
// variables, and env without variables of the same names.
func Secrets(task *driver.TaskConfig, env, denied []string) (plain, secret []string) {
	plain = slices.DeleteFunc(env, func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, has := task.SecretEnv[name]
		return has
	})
	return plain, Environment(task.SecretEnv, denied)
}

// Logs returns where the supervisor writes the task's output. The trusted root is
// the alloc's directory, because tasks can change everything below it.
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
		return l, fmt.Errorf("the log files %s and %s must be in one directory below %s", task.Logs.StdoutPath, task.Logs.StderrPath, task.AllocDir)
	}
	l.Dir = filepath.ToSlash(rel)
	return l, nil
}
