// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"fmt"
	"time"
)

// exitLimit is how long after the loss of its connection the end of a process is
// awaited.
const exitLimit = time.Second

// fate describes what happened to a process whose connection was lost.
func (p *Process) fate() string {
	if p.Reattached {
		return "its process ended or closed its connection" // not our child: nobody tells us how
	}
	deadline := time.NewTimer(exitLimit)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !p.client.Exited() {
		select {
		case <-deadline.C:
			return "it closed its connection though its process runs, so it is killed"
		case <-tick.C:
		}
	}
	return "its process " + exitText(p)
}

// exitText says how a child ended.
func exitText(p *Process) string {
	state := p.cmd.ProcessState
	if state == nil {
		return "ended"
	}
	if !state.Exited() {
		return fmt.Sprintf("was ended (%s)%s", state, p.launcher.limiter.why(p.File.Name, p.oomKills))
	}
	if words := p.out.tail.lastWords(); words != "" {
		return fmt.Sprintf("ended with %s; it wrote: %s", state, words)
	}
	return fmt.Sprintf("ended with %s; see its last log lines", state)
}
