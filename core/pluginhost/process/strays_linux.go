// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/procfs"
)

// strays returns the plugin processes that any agent with these sockets started: they have
// the variable, "NAME=directory", in their environment, or one below that directory, and
// either no arguments or the arguments of a plugin block. A process that a plugin starts
// itself, such as the supervisor of tasks, has other arguments.
func strays(variable string, blocks map[string][]string) []*os.Process {
	mark := []byte(variable)
	var out []*os.Process
	for _, pid := range procfs.PIDs() {
		if pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // opened before its environment is read, so that a reused pid is not killed
		if err != nil {
			continue
		}
		if isPlugin(pid, mark, blocks) {
			out = append(out, p)
			continue
		}
		_ = p.Release() // it is none of ours
	}
	return out
}

func isPlugin(pid int, mark []byte, blocks map[string][]string) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || !isCommandOfPlugin(cmdline, blocks) {
		return false
	}
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return false
	}
	for one := range bytes.SplitSeq(env, []byte{0}) {
		if after, ok := bytes.CutPrefix(one, mark); ok && (len(after) == 0 || after[0] == '/') {
			return true
		}
	}
	return false
}

func isCommandOfPlugin(cmdline []byte, blocks map[string][]string) bool {
	words := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	if len(cmdline) == 0 || len(words) == 1 {
		return len(cmdline) > 0
	}
	for _, args := range blocks {
		if slices.Equal(words[1:], args) {
			return true
		}
	}
	return false
}
