// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// Processes returns the processes whose environment or command line contains a text that only
// those know which are looked for, each with its parent. Processes that have ended are left out.
func Processes(mark string) map[int]int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	out := map[int]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		dir := filepath.Join("/proc", e.Name())
		env, _ := os.ReadFile(filepath.Join(dir, "environ")) // both are empty if it has ended
		command, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if bytes.Contains(env, []byte(mark)) || bytes.Contains(command, []byte(mark)) {
			out[pid] = parentOf(dir)
		}
	}
	return out
}

// parentOf reads the parent of a process; 0 if it has ended.
func parentOf(dir string) int {
	stat, _ := os.ReadFile(filepath.Join(dir, "stat"))
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // its name may have spaces
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	return parent
}

// endLimit bounds how long EndProcesses searches while processes fork again and again.
const endLimit = 5 * time.Second

// EndProcesses kills every process whose environment contains the directory dir of a check:
// a plugin has forked it and left it behind. No other process on the machine knows dir.
func EndProcesses(dir string) {
	for end := time.Now().Add(endLimit); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		entries, err := os.ReadDir("/proc")
		if err != nil {
			return
		}
		found := false
		for _, e := range entries {
			pid, err := strconv.Atoi(e.Name())
			if err != nil || pid == os.Getpid() {
				continue
			}
			p, err := os.FindProcess(pid) // opened before its environment is read, so that a reused pid is not killed
			if err != nil {
				continue
			}
			env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // empty if it has ended
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
