// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervise

import (
	"github.com/drover-project/drover/core/pluginhost/install"
	"github.com/drover-project/drover/core/pluginhost/kinds"
	"github.com/drover-project/drover/core/pluginhost/process"
)

// State is the state of a plugin.
type State string

// The states. A plugin that is backing off or in a crash loop has failed and will be
// started again. An undetected plugin found nothing to serve; it is not kept running,
// but checked at intervals. A resting plugin has something to serve, but nobody uses
// it. A plugin that is not answering has a running process, but calls to one of its
// drivers fail.
const (
	StateStarting     State = "starting"
	StateRunning      State = "running"
	StateNotAnswering State = "not answering"
	StateBackingOff   State = "backing off"
	StateCrashLoop    State = "crash loop"
	StateUndetected   State = "undetected"
	StateResting      State = "resting"
	StateStopped      State = "stopped"
	StateDisabled     State = "disabled" // by an operator; it may still run for its tasks
	StateRemoved      State = "removed"  // its file was removed; it may still run for its tasks
	StateUnusable     State = "unusable" // a file that looks like a plugin but cannot be run
	StateInstalling   State = "installing"
	StateNotInstalled State = "not installed" // the first install failed
)

// Status is the status of one plugin file.
type Status struct {
	Name       string
	Version    string
	Path       string
	Digest     string // "sha256:HEX" of the file; "" until it was read
	PID        int
	State      State
	Restarts   int
	Reattached bool
	// Granted are the rights of the current or last process; nil before there was one. TLS
	// says whether its connection uses mutual TLS, Socket is the path on which it listens,
	// and Stacks the file with the stacks that it wrote at a SIGQUIT.
	Granted *process.Granted
	TLS     bool
	Socket  string
	Stacks  string
	kinds.Names
	// LastError is why the plugin does not work; nil while it does.
	LastError error
	// LastFailure is why the last failed process ended or could not be used, and
	// FailedPID is its pid, 0 if it did not start.
	LastFailure error
	FailedPID   int
	// CrashLoop means that it failed often in a short time and has not run steadily
	// since.
	CrashLoop bool
	// UpgradeError is why the last version that was tried is not running; it stays
	// until a version takes over.
	UpgradeError error
	// Previous is the digest of the version to which a rollback returns.
	Previous string
	// Warnings lists the parts of the plugin that the host does not use, such as a name
	// that another plugin serves.
	Warnings []string
	Tasks    int                  // number of its tasks that the host knows
	Bad      []install.BadVersion // not tried again automatically
	Work     *install.Work        // current or last operation on it; nil if there was none

	process *process.Process // the current or last one
}

// Rests reports whether a plugin in this state has no process because nobody needs
// one; a call then starts it.
func (st State) Rests() bool { return st == StateUndetected || st == StateResting }

// Status returns the current status.
func (s *Plugin) Status() Status {
	st := s.snapshot()
	m := s.shared.Catalog.Get(st.Name)
	st.Previous, st.Bad, st.Work = m.Previous, m.Bad, s.shared.Works.Get(st.Name)
	if st.PID != 0 { // otherwise its last error says the same
		st.Warnings = s.shared.Kinds.Warnings(st.Name)
	}
	st.Tasks = s.shared.Kinds.Drivers.Tasks(st.Name, nil)
	return st
}
