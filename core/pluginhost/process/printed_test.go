// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginhost/process"
)

// A plugin whose device is absent is asked every minute and ends each time.
func TestThatAPluginHasEndedInOrderIsNotInTheLog(t *testing.T) {
	var out bytes.Buffer
	log := process.NewStderrLogger(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info}))
	log.Info("plugin process exited")
	log.Named("device").Info("what the plugin says")
	log.Error("plugin process exited", "error", "exit status 2")
	if text := out.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "[INFO]  what the plugin says") || !strings.Contains(text, "[ERROR] plugin process exited") {
		t.Errorf("logged\n%s", text)
	}
}

func TestThatAPluginEndsWhichTheHostHasKilledIsNoError(t *testing.T) {
	var out bytes.Buffer
	log := process.NewStderrLogger(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info}))
	process.Killed(log)
	log.Error("plugin process exited", "error", "signal: killed")
	log.Named("consul").Error("what the plugin says")
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "[ERROR] what the plugin says") {
		t.Errorf("logged\n%s", text)
	}
}
