// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"os"
	"testing"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// agent is an agent with the steps that only tests of this package take.
type agent struct{ *harness.Agent }

func newAgent(t *testing.T) *agent {
	t.Helper()
	return &agent{harness.New(t)}
}

// start starts the agent and waits until its node can run tasks.
func (a *agent) start() *agent {
	a.T.Helper()
	a.Start()
	return a
}
