// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

var outputChecks = []Check{
	{"logs", "output reaches the log files", canLog, checkLogs},
	{"logs-disabled", "nothing is written where logs are disabled, and the task does not block", nil, checkLogsDisabled},
	{"logs-again", "a task that starts anew goes on in the log files that are there", canLog, checkLogsAgain},
	{"logs-link", "a link in the place of a log file is not followed", canLog, checkLogsLink},
	{"logs-alone", "the output of a task is kept while no plugin runs", canLog, checkLogsAlone},
	{"log-rotation", "log files rotate", canLog, checkRotation},
}

// printed returns a condition that is true once the log file contains the text.
func printed(path, text string) func() bool {
	return func() bool {
		body, err := os.ReadFile(path)
		return err == nil && bytes.Contains(body, []byte(text))
	}
}

func checkLogs(b *bench) {
	config, _ := b.start("echo to-out; echo to-err >&2")
	b.wait(config.ID)
	b.eventually("stdout is in its file", printed(config.Logs.StdoutPath+".0", "to-out\n"))
	b.eventually("stderr is in its file", printed(config.Logs.StderrPath+".0", "to-err\n"))
	if printed(config.Logs.StdoutPath+".0", "to-err")() {
		b.t.Errorf("stderr is in the file of stdout")
	}
	b.destroy(config.ID)
	if !printed(config.Logs.StdoutPath+".0", "to-out\n")() {
		b.t.Errorf("the log files are gone with the task that was destroyed")
	}
}

func checkRotation(b *bench) {
	if b.subject.NoRotation {
		b.t.Skipf("left out on request")
	}
	config, _ := b.start("i=0; while [ $i -lt 5 ]; do head -c 1048576 /dev/zero; i=$((i+1)); done; echo last")
	b.wait(config.ID)
	newest := func() string {
		found := ""
		for n := range 10 {
			path := fmt.Sprintf("%s.%d", config.Logs.StdoutPath, n)
			if _, err := os.Stat(path); err == nil {
				found = path
			}
		}
		return found
	}
	b.eventually("the last line is in the newest file", func() bool { return printed(newest(), "last\n")() })
	files, err := filepath.Glob(config.Logs.StdoutPath + ".*")
	if err != nil || len(files) < 2 || len(files) > config.Logs.MaxFiles {
		b.t.Errorf("files %v, %v; want 2 to %d", files, err, config.Logs.MaxFiles)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil {
			b.t.Errorf("%v", err)
		} else if info.Size() > 1<<20+64<<10 {
			b.t.Errorf("%s has %d bytes, want at most 1 MiB", f, info.Size())
		}
	}
}

func checkLogsDisabled(b *bench) {
	config := b.task("i=0; while [ $i -lt 4 ]; do head -c 65536 /dev/zero; i=$((i+1)); done; echo to-out; echo to-err >&2")
	config.Logs.Disabled = true
	b.startConfig(b.ctx, config)
	if r := b.wait(config.ID); !r.Successful() {
		b.t.Errorf("a task whose output is thrown away ended with %+v", r)
	}
	b.destroy(config.ID)
	for _, base := range []string{config.Logs.StdoutPath, config.Logs.StderrPath} {
		for _, path := range logFiles(b, base) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > 0 {
				b.t.Errorf("%s was written though logs are disabled", path)
			}
		}
	}
}

// checkLogsAgain starts a task with the log files of an earlier one, as a restart
// does.
func checkLogsAgain(b *bench) {
	first := b.task("echo first run")
	b.startConfig(b.ctx, first)
	b.wait(first.ID)
	b.eventually("the output of the first run is in its file", logged(b, first, "first run\n"))
	b.destroy(first.ID)
	second := b.task("echo second run")
	second.AllocDir, second.TaskDir, second.Logs = first.AllocDir, first.TaskDir, first.Logs
	b.startConfig(b.ctx, second)
	b.wait(second.ID)
	b.eventually("the output of the second run is in a file", logged(b, second, "second run\n"))
	if !logged(b, second, "first run\n")() {
		b.t.Errorf("the output of the first run is gone after the second; files %v", logFiles(b, second.Logs.StdoutPath))
	}
}

// checkLogsLink puts a symbolic link in place of the log file, as a malicious task
// could.
func checkLogsLink(b *bench) {
	config := b.task("echo to-out")
	target := filepath.Join(b.t.TempDir(), "target")
	if err := os.WriteFile(target, nil, 0o666); err != nil {
		b.t.Fatalf("make what the link leads to: %v", err)
	}
	if err := os.Symlink(target, config.Logs.StdoutPath+".0"); err != nil {
		b.t.Fatalf("place the link: %v", err)
	}
	b.started = append(b.started, config.Ref())
	if _, _, err := b.d.StartTask(b.ctx, config); err == nil { // refusing the task is correct, too
		b.wait(config.ID)
	}
	b.destroy(config.ID)
	if body, err := os.ReadFile(target); err != nil || len(body) > 0 {
		b.t.Errorf("the link that a task placed at its log was followed: what it leads to has %d bytes, %v", len(body), err)
	}
}

// checkLogsAlone makes a task write more than a pipe can hold while no plugin process
// runs. The output may reach the log files only when the next process runs.
func checkLogsAlone(b *bench) {
	config, handle := b.start(`echo up; sleep 0.3; head -c 524288 /dev/zero; echo last; cd local 2>/dev/null || cd "$NOMAD_TASK_DIR"; echo x > beat; exit 5`)
	b.up(config)
	b.die()
	b.eventually("the task goes on though it prints and no plugin runs", func() bool { return beats(config) > 0 })
	b.connect()
	b.configure()
	if err := b.d.RecoverTask(b.ctx, handle); err != nil {
		b.t.Fatalf("RecoverTask: %v; the task (%s) may still run on this machine", err, config.ID)
	}
	if r := b.wait(config.ID); r.ExitCode != 5 {
		b.t.Errorf("result %+v, want exit code 5", r)
	}
	b.eventually("what the task printed while no plugin ran is in its file", logged(b, config, "last\n"))
}

// logFiles returns the log files of one stream.
func logFiles(b *bench, base string) []string {
	files, err := filepath.Glob(base + ".*")
	if err != nil {
		b.t.Fatalf("look for log files: %v", err)
	}
	return files
}

// logged returns a condition that is true once one of the files of standard output
// contains the text.
func logged(b *bench, config *driver.TaskConfig, text string) func() bool {
	return func() bool {
		for _, path := range logFiles(b, config.Logs.StdoutPath) {
			if printed(path, text)() {
				return true
			}
		}
		return false
	}
}

func (b *bench) destroy(id string) {
	if err := b.d.DestroyTask(b.ctx, driver.TaskRef{ID: id}, true); err != nil {
		b.t.Errorf("DestroyTask: %v", err)
	}
}
