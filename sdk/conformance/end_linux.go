// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/drover-project/drover/sdk/procfs"
)

// Processes returns the parent of each process whose environment or command line contains
// the mark. Processes that have ended are left out.
func Processes(mark string) map[int]int {
	out := map[int]int{}
	for _, pid := range procfs.PIDs() {
		if pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", strconv.Itoa(pid))
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // both are empty if it has ended
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte(mark)) || bytes.Contains(command, []byte(mark)) {
			p, _ := procfs.Read(pid) // its parent is 0 if it has ended
			out[pid] = p.Parent
		}
	}
	return out
}

// endLimit bounds how long EndProcesses searches while processes fork again and again.
const endLimit = 5 * time.Second

// EndProcesses kills every process whose environment contains the directory dir of a check:
// a plugin has forked it and left it behind. No other process on the machine knows dir.
func EndProcesses(dir string) {
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		found := false
		for _, pid := range procfs.PIDs() {
			if pid == os.Getpid() {
				continue
			}
			p, err := os.FindProcess(pid) // opened before its environment is read, so that a reused pid is not killed
			if err != nil {
				continue
			}
			env, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")) // empty if it has ended
			if err == nil && bytes.Contains(env, []byte("="+dir+"/")) {
				found = true
				_ = p.Kill() // an error means that it has ended
			}
			_ = p.Release() // it only frees the handle
		}
		if !found {
			return
		}
	}
}
