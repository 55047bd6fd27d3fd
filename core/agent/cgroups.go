// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"os"
	"path/filepath"
)

// owner names this agent in what outlives it, since a machine may have several agents.
// Agents in containers may have the same directory, but each has process ids of its own.
func (a *Agent) owner() string {
	dir, err := filepath.Abs(a.cfg.DataDir)
	if err != nil {
		dir = a.cfg.DataDir
	}
	pids, _ := os.Readlink("/proc/self/ns/pid") // other systems have none
	return pids + " " + dir
}

// allCores are the machine's cores.
func (a *Agent) allCores() []int {
	var out []int
	for _, c := range a.facts.Resources.Processors.Topology.Cores {
		out = append(out, int(c.ID))
	}
	return out
}

// usableCores are the machine's cores without the cores that the operator has reserved.
func (a *Agent) usableCores() []int {
	var out []int
	for _, c := range a.facts.Resources.Processors.Topology.Cores {
		if !c.Disable {
			out = append(out, int(c.ID))
		}
	}
	return out
}
