// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"os"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/config"
)

func TestAnAgentLeavesOnTheSignalsThatItsConfigurationNames(t *testing.T) {
	const drained, server = "client {\n  enabled = true\n  drain_on_shutdown {}\n}\n", "server { enabled = true }\n"
	for _, c := range []struct {
		text       string
		term, intr bool
	}{
		{drained, false, false},
		{drained + "leave_on_terminate = true", true, false},
		{drained + "leave_on_interrupt = true", false, true},
		{drained + "leave_on_interrupt = true\nleave_on_terminate = true", true, true},
		{"client { enabled = true }\nleave_on_interrupt = true\nleave_on_terminate = true", false, false}, // there is nothing to do
		{server, false, false},
		{server + "leave_on_terminate = true", true, false},
		{server + "leave_on_interrupt = true", false, true},
	} {
		cfg := config.Defaults()
		if err := cfg.Merge("a.hcl", []byte(c.text)); err != nil {
			t.Fatal(err)
		}
		if term, intr := leaves(cfg, syscall.SIGTERM), leaves(cfg, os.Interrupt); term != c.term || intr != c.intr {
			t.Errorf("%s: it leaves on SIGTERM %v, on SIGINT %v", c.text, term, intr)
		}
	}
}
