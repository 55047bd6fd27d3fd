// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining

import (
	"strconv"

	"github.com/drover-project/drover/core/membership"
)

// Address returns the rpc address at which gossip has found a server.
func (j *Joiner) Address(id string) (string, bool) {
	for _, f := range j.found() {
		if f.ID == id && f.Status == membership.Alive {
			return f.RPC, true
		}
	}
	return "", false
}

// Addresses returns the rpc addresses of the servers that are alive, this one first.
func (j *Joiner) Addresses() []string {
	out := []string{j.cfg.Address}
	for _, f := range j.found() {
		if f.Status == membership.Alive && f.ID != j.cfg.ID {
			out = append(out, f.RPC)
		}
	}
	return out
}

// Announced returns the name of a server and the capability level that it reads; 0 if
// that is unknown.
func (j *Joiner) Announced(id string) (name string, level int) {
	for _, f := range j.found() {
		if f.ID != id {
			continue
		}
		if name == "" || f.Status == membership.Alive {
			name = f.Name
			level, _ = strconv.Atoi(f.Tags[tagLevel]) // a server without it is too old to announce a level
		}
	}
	return name, level
}

func (j *Joiner) found() []membership.Member {
	if m := j.members.Load(); m != nil {
		return m.Members()
	}
	return nil
}
