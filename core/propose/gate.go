// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package propose

import "github.com/drover-project/drover/core/fsm"

// Gate refuses commands above the cluster's capability level, which some server could not
// read: that server would stop. All proposals of a server pass one.
type Gate struct {
	// Level returns the level in the state.
	Level func() int
	// Refuse returns the error for a command that needs a level. It says which servers
	// are too old.
	Refuse func(level int) error
	// CannotRaise returns why this server, if it is to raise the level, cannot write at
	// all, such as a full disk. A low level is then no cause but a consequence. It may be
	// nil.
	CannotRaise func() error
}

// Check returns an error of class FailedPrecondition if the entry needs a higher level than
// the cluster has, or what keeps the level low.
func (g Gate) Check(entry []byte) error {
	need := fsm.Needs(entry)
	if need <= g.Level() {
		return nil
	}
	if g.CannotRaise != nil {
		if err := g.CannotRaise(); err != nil {
			return err
		}
	}
	return g.Refuse(need)
}
