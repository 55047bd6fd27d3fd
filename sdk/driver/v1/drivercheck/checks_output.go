// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package drivercheck

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

var outputChecks = []Check{
	{"logs", "output reaches the log files", canLog, checkLogs},
	{"log-rotation", "log files rotate", canLog, checkRotation},
}

// printed returns whether the log file has the text.
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
