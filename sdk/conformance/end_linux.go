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

// endLimit bounds how long processes are looked for that fork again and again.
const endLimit = 5 * time.Second

// EndProcesses kills every process that has a directory of a check, which nothing else on
// the machine knows, in its environment: what a plugin has forked and left.
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
			p, err := os.FindProcess(pid) // first: it is the process that is looked at
			if err != nil {
				continue
			}
			env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // empty if it has ended
			if err == nil && bytes.Contains(env, []byte("="+dir+"/")) {
				found = true
				_ = p.Kill() // an error means that it has ended
			}
			_ = p.Release() // nothing else is done to it
		}
		if !found {
			return
		}
	}
}
