// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestAPluginThatEndsWhileItIsGreetedLeavesNothing(t *testing.T) {
	before := goleak.IgnoreCurrent()
	h := start(t, config(t, "ends-at-once"))
	eventually(t, "it has failed often", func() bool { return only(t, h).Restarts >= 20 })
	h.Close(false)
	eventually(t, "no goroutine is left", func() bool { return goleak.Find(before) == nil })
}
