// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent_test

import "testing"

func TestAnAgentThatEndsSaysThatItsNodeWillBeBack(t *testing.T) {
	b := newBed(t)
	<-b.agent.Ready()
	b.again()
	b.servers.with(func() {
		if b.servers.aways != 1 {
			t.Errorf("it said so %d times", b.servers.aways)
		}
	})
}
