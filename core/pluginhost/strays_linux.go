// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"

	goplugin "github.com/hashicorp/go-plugin"
)

// strays returns the plugin processes that any agent with these sockets started:
// they have its directory in their environment and no arguments. What plugins
// start themselves, as a supervisor of tasks, has arguments.
func strays(socketDir string) []*os.Process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	mark := []byte(goplugin.EnvUnixSocketDir + "=" + socketDir)
	var out []*os.Process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		p, err := os.FindProcess(pid) // first: it is the process that is looked at
		if err != nil {
			continue
		}
		if isPlugin(pid, mark) {
			out = append(out, p)
			continue
		}
		_ = p.Release() // it is none of ours
	}
	return out
}

func isPlugin(pid int, mark []byte) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	args, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || bytes.Count(args, []byte{0}) != 1 {
		return false
	}
	env, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return false
	}
	for one := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(one, mark) {
			return true
		}
	}
	return false
}
