// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package shelldriver

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// begun is the record of one start in the task's directory. It is written before the
// process is forked, so that a start in whose middle the driver is killed can be ended by
// the next process of the driver. Its value is the path of a file whose name is never used
// again. Either the wrapper renames the file to PATH.begun, after it has written its pid to
// PATH.pid, and then runs the script; or DestroyTask removes the file, and then the wrapper
// ends without running the script.
type begun string

const (
	begunSuffix = ".begun"
	pidSuffix   = ".pid"
)

func prefix(ref driver.TaskRef) string { return ".start-" + filepath.Base(ref.ID) + "-" }

// begin records a start.
func begin(ref driver.TaskRef) (begun, error) {
	path := filepath.Join(ref.TaskDir, prefix(ref)+rand.Text())
	return begun(path), os.WriteFile(path, nil, 0o600)
}

// interrupted returns the records of the task's starts that were not destroyed.
func interrupted(ref driver.TaskRef) ([]begun, error) {
	if ref.TaskDir == "" {
		return nil, nil // an old host does not say where to look
	}
	entries, err := os.ReadDir(ref.TaskDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []begun
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix(ref)) && !strings.HasSuffix(e.Name(), pidSuffix) {
			out = append(out, begun(filepath.Join(ref.TaskDir, strings.TrimSuffix(e.Name(), begunSuffix))))
		}
	}
	return out, err
}

// destroyInterrupted ends what an earlier process of the driver began.
func destroyInterrupted(ref driver.TaskRef, force bool) error {
	records, err := interrupted(ref)
	if err != nil {
		return errdefs.Unavailablef("look for an interrupted start of task %q: %w", ref.ID, err)
	}
	for _, r := range records {
		pid := r.pid()
		if pid != 0 && !force && syscall.Kill(pid, 0) == nil {
			return errdefs.FailedPreconditionf("task %q still runs; stop it first or use force", ref.ID)
		}
		r.end()
	}
	return nil
}

// pid returns the process that runs the script. If it returns 0, the script does not run
// and never will.
func (b begun) pid() int {
	if os.Remove(string(b)) == nil {
		return 0
	}
	body, err := os.ReadFile(string(b) + pidSuffix)
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(body))) // 0 if it is not a number
	return pid
}

// end kills the process, if there is one, and removes the record.
func (b begun) end() {
	if b == "" {
		return // the handle is from before starts were recorded
	}
	if pid := b.pid(); pid > 0 {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // an error means that no process is left
	}
	_ = os.Remove(string(b) + begunSuffix) // none of them must exist
	_ = os.Remove(string(b) + pidSuffix)
}
