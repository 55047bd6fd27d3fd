// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
)

// subsystemPlugin is the subsystem of events about plugins.
const subsystemPlugin = "Plugin"

// pluginEvents returns the events of plugins between two checks. It compares states
// instead of counting changes, so that a plugin that fails many times in between
// causes one event.
func pluginEvents(before map[string]pluginhost.PluginStatus, after []pluginhost.PluginStatus, now time.Time) []*model.NodeEvent {
	var out []*model.NodeEvent
	for i := range after {
		out = append(out, eventsOf(before[after[i].Name], &after[i], now)...)
	}
	return out
}

// eventsOf returns the events by which one plugin came from before to its present status;
// before is the zero value for a new plugin.
func eventsOf(before pluginhost.PluginStatus, after *pluginhost.PluginStatus, now time.Time) []*model.NodeEvent {
	var out []*model.NodeEvent
	failed := after.Restarts - before.Restarts
	if failed < 0 { // another plugin with the same name
		failed = after.Restarts
	}
	troubled := failed > 0 || before.LastError != nil || before.CrashLoop
	switch {
	case failed > 0 && after.CrashLoop && !before.CrashLoop:
		out = append(out, pluginEvent(after, failed, now, "keeps failing, so it is started again only from time to time", after.LastFailure))
	case failed > 0 && !after.CrashLoop && !(before.CrashLoop && after.LastError == nil): // failures of a crash loop that has ended are reported already
		out = append(out, pluginEvent(after, failed, now, "failed"+times(failed), after.LastFailure))
	case after.State == pluginhost.StateNotAnswering && before.State != pluginhost.StateNotAnswering:
		out = append(out, pluginEvent(after, 0, now, "does not answer", after.LastError))
	}
	if after.UpgradeError != nil && (before.UpgradeError == nil || before.UpgradeError.Error() != after.UpgradeError.Error()) {
		out = append(out, pluginEvent(after, 0, now, "goes on with its version, since another one does not work", after.UpgradeError))
	}
	if before.Digest != "" && after.Digest != "" && before.Digest != after.Digest {
		out = append(out, pluginEvent(after, 0, now, "is another version now: "+after.Version, nil))
	}
	if troubled && (after.State == pluginhost.StateRunning || after.State == pluginhost.StateResting) && !after.CrashLoop {
		out = append(out, pluginEvent(after, 0, now, "works again", nil))
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf(" %d times", n)
}

func pluginEvent(p *pluginhost.PluginStatus, failed int, now time.Time, what string, why error) *model.NodeEvent {
	e := &model.NodeEvent{
		Subsystem: subsystemPlugin, Timestamp: now.UTC(), Message: fmt.Sprintf("Plugin %q %s", p.Name, what),
		Details: map[string]string{model.NodeEventPlugin: p.Name, "version": p.Version, "state": string(p.State)},
	}
	pid := p.PID
	if why != nil {
		e.Message += ": " + why.Error()
		e.Details["error"] = why.Error()
	}
	if failed > 0 {
		e.Details["failures"] = strconv.Itoa(failed)
		pid = p.FailedPID
	}
	if pid != 0 {
		e.Details["pid"] = strconv.Itoa(pid)
	}
	return e
}
