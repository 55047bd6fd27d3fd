// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The most common task events, without their time. Nodes record them, and the log
// stores only their parameters (core/fsm). A changed text would also apply to events
// in old logs, so changing one requires a new encoding in the log.

// EventReceived says that the node has received the task.
func EventReceived() TaskEvent {
	return TaskEvent{Type: TaskReceived, DisplayMessage: "Task received by client"}
}

// EventSetup says that the setup of the task has begun.
func EventSetup() TaskEvent {
	const text = "Building Task Directory"
	return TaskEvent{Type: TaskSetup, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
}

// EventDownloading says that artifacts are being fetched.
func EventDownloading() TaskEvent {
	return TaskEvent{Type: TaskDownloadingArtifacts, DisplayMessage: "Client is downloading artifacts", Details: map[string]string{}}
}

// EventStarted says that the driver has started the task.
func EventStarted() TaskEvent {
	return TaskEvent{Type: TaskStarted, DisplayMessage: "Task started by client"}
}

// EventTerminated says how the task ended. message is "" if the numbers describe it
// completely.
func EventTerminated(exitCode, signal int, oomKilled bool, message string) TaskEvent {
	text := "Exit Code: " + strconv.Itoa(exitCode)
	if signal != 0 {
		text += ", Signal: " + strconv.Itoa(signal)
	}
	if message == "" && oomKilled {
		message = "OOM Killed"
	}
	if message != "" {
		text += fmt.Sprintf(", Exit Message: %q", message)
	}
	e := TaskEvent{
		Type: TaskTerminated, DisplayMessage: text, ExitCode: exitCode, Signal: signal, Message: message,
		Details: map[string]string{
			"exit_code": strconv.Itoa(exitCode), "signal": strconv.Itoa(signal), "oom_killed": strconv.FormatBool(oomKilled),
		},
	}
	if message != "" {
		e.Details["exit_message"] = message
	}
	return e
}

// RestartWithinPolicy is the usual reason for a restart.
const RestartWithinPolicy = "Restart within policy"

// EventRestarting says why and when the task starts again.
func EventRestarting(reason string, delay time.Duration) TaskEvent {
	text := "Task restarting in " + delay.String()
	if reason != "" && reason != RestartWithinPolicy {
		text = reason + " - " + text // the usual reason is not repeated, as in the reference
	}
	return TaskEvent{
		Type: TaskRestarting, RestartReason: reason, StartDelay: int64(delay), DisplayMessage: text,
		Details: map[string]string{"restart_reason": reason, "start_delay": strconv.FormatInt(int64(delay), 10)},
	}
}

// EventNotRestarting says why the task has failed for good.
func EventNotRestarting(reason string) TaskEvent {
	return TaskEvent{
		Type: TaskNotRestarting, RestartReason: reason, DisplayMessage: reason, FailsTask: true,
		Details: map[string]string{"restart_reason": reason, "fails_task": "true"},
	}
}

// EventRestartSignaled says that a restart was requested.
func EventRestartSignaled(reason string) TaskEvent {
	return TaskEvent{
		Type: TaskRestartSignal, RestartReason: reason, DisplayMessage: reason,
		Details: map[string]string{"restart_reason": reason},
	}
}

// EventKilling says that the task was asked to end.
func EventKilling(timeout time.Duration) TaskEvent {
	return TaskEvent{
		Type: TaskKilling, KillTimeout: timeout,
		DisplayMessage: fmt.Sprintf("Sent interrupt. Waiting %s before force killing", timeout),
		Details:        map[string]string{"kill_timeout": timeout.String()},
	}
}

// EventKilled says that the task has ended after it was asked to.
func EventKilled() TaskEvent {
	return TaskEvent{Type: TaskKilled, DisplayMessage: "Task successfully killed"}
}

// EventSiblingFailed says that the group ends because another task failed.
func EventSiblingFailed(name string) TaskEvent {
	return TaskEvent{
		Type: TaskSiblingFailed, FailedSibling: name, DisplayMessage: fmt.Sprintf("Task's sibling %q failed", name),
		Details: map[string]string{"failed_sibling": name},
	}
}

// EventLeaderDead says that the group ends because its leader has.
func EventLeaderDead() TaskEvent {
	return TaskEvent{Type: TaskLeaderDead, DisplayMessage: "Leader Task in Group dead"}
}

// EventMainDead says that the group ends because its work is done.
func EventMainDead() TaskEvent {
	return TaskEvent{Type: TaskMainDead, DisplayMessage: "Main tasks in the group died"}
}

// EventDriverFailure says that the driver could not start the task.
func EventDriverFailure(why string) TaskEvent {
	return TaskEvent{Type: TaskDriverFailure, DriverError: why, DisplayMessage: why, Details: map[string]string{"driver_error": why}}
}

// EventSetupFailure says which step before the driver's start failed.
func EventSetupFailure(why string) TaskEvent {
	return TaskEvent{Type: TaskSetupFailure, SetupError: why, DisplayMessage: why, Details: map[string]string{"setup_error": why}}
}

// EventArtifactFailed says that an artifact could not be fetched.
func EventArtifactFailed(why string) TaskEvent {
	return TaskEvent{Type: TaskArtifactDownloadFailed, DownloadError: why, DisplayMessage: why, Details: map[string]string{"download_error": why}}
}

// EventFailedValidation says why the driver refuses the task's config.
func EventFailedValidation(why string) TaskEvent {
	return TaskEvent{Type: TaskFailedValidation, ValidationError: why, DisplayMessage: why, Details: map[string]string{"validation_error": why}}
}

// Names in the Details of an event that say more about a failure.
const (
	detailReason     = "reason"
	detailRetryAfter = "retry_after"
	detailPrefix     = "detail." // followed by the name that the driver gave
)

// Explain adds the reason code, the details and the retry hint of an error to the event of
// a failure. Empty ones are left out.
func (e *TaskEvent) Explain(reason string, details map[string]string, retryAfter time.Duration) {
	if reason == "" && len(details) == 0 && retryAfter <= 0 {
		return
	}
	e.Details = maps.Clone(e.Details)
	if e.Details == nil {
		e.Details = map[string]string{}
	}
	if reason != "" {
		e.Details[detailReason] = reason
	}
	if retryAfter > 0 {
		e.Details[detailRetryAfter] = retryAfter.String()
	}
	for name, value := range details {
		e.Details[detailPrefix+name] = value
	}
}

// Explanation returns in one line what Explain added, or "".
func (e *TaskEvent) Explanation() string {
	var parts []string
	if reason := e.Details[detailReason]; reason != "" {
		parts = append(parts, "reason "+reason)
	}
	for _, key := range slices.Sorted(maps.Keys(e.Details)) {
		if name, is := strings.CutPrefix(key, detailPrefix); is {
			parts = append(parts, fmt.Sprintf("%s %q", name, e.Details[key]))
		}
	}
	if after := e.Details[detailRetryAfter]; after != "" {
		parts = append(parts, "next try not within "+after)
	}
	return strings.Join(parts, ", ")
}

// EventMessage returns an event of any type with only a message.
func EventMessage(typ, text string) TaskEvent {
	return TaskEvent{Type: typ, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
}

// noDetails are the Details of events that have none. It is not nil, because the API shows
// an empty object.
var noDetails = map[string]string{}

// NoDetails returns empty Details, which many events share and nobody may change.
func NoDetails() map[string]string { return noDetails }

// commonEvents are events that most tasks have, by type.
var commonEvents = sync.OnceValue(func() map[string][]TaskEvent {
	out := map[string][]TaskEvent{}
	for _, e := range []TaskEvent{
		EventReceived(), EventSetup(), EventDownloading(), EventStarted(), EventTerminated(0, 0, false, ""), EventKilled(),
		EventTerminated(143, 15, false, ""), EventTerminated(137, 9, false, ""), EventKilling(5 * time.Second), EventLeaderDead(), EventMainDead(),
	} {
		if len(e.Details) == 0 {
			e.Details = noDetails
		}
		out[e.Type] = append(out[e.Type], e)
	}
	return out
})

// Share makes an event that many tasks have share its texts and Details with them. They
// must not be changed afterwards.
func (e *TaskEvent) Share() {
	if e.Details != nil && len(e.Details) == 0 {
		e.Details = noDetails
	}
	for i := range commonEvents()[e.Type] {
		c := &commonEvents()[e.Type][i]
		if e.Message == c.Message && e.DisplayMessage == c.DisplayMessage && e.Details != nil && maps.Equal(e.Details, c.Details) {
			e.Type, e.Message, e.DisplayMessage, e.Details = c.Type, c.Message, c.DisplayMessage, c.Details
			return
		}
	}
}

// maxEventText limits one text of an event, in bytes: drivers may send texts of any
// length, and servers refuse reports that are too large.
const maxEventText = 8192

// CutTexts shortens the event's texts to the size that servers accept. It replaces
// Details.
func (e *TaskEvent) CutTexts() {
	for _, text := range []*string{
		&e.Message, &e.DisplayMessage, &e.RestartReason, &e.SetupError, &e.DriverError, &e.KillError, &e.KillReason,
		&e.DownloadError, &e.ValidationError, &e.VaultError, &e.TaskSignalReason, &e.DriverMessage,
	} {
		*text = CutText(*text, maxEventText)
	}
	details := make(map[string]string, len(e.Details))
	for k, v := range e.Details {
		details[k] = CutText(v, maxEventText)
	}
	e.Details = details
}

// EventResourcesUpdated says that the running task has other resources now: cpu in MHz,
// memory in MiB.
func EventResourcesUpdated(cpu, memory, memoryMax int64) TaskEvent {
	text := fmt.Sprintf("The running task has cpu %d MHz and memory %d MiB", cpu, memory)
	if memoryMax > memory {
		text += fmt.Sprintf(", at most %d MiB", memoryMax)
	}
	return TaskEvent{Type: TaskResourcesUpdated, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
}

// EventPaused says that the driver holds the running task where it is, and EventResumed that
// it lets the task continue.
func EventPaused() TaskEvent {
	return EventMessage(TaskPaused, "The task is frozen where it is; drover alloc thaw lets it continue")
}

func EventResumed() TaskEvent { return EventMessage(TaskResumed, "The task continues") }

// EventPausing says that a task does not run because of its schedule or an operator.
func EventPausing(paused string) TaskEvent {
	switch paused {
	case PausedByOperator:
		return EventMessage(TaskPausing, "An operator paused the task; drover alloc pause -state=scheduled has it follow its schedule again")
	default:
		return EventMessage(TaskPausing, "The time is outside the schedule of the task: it does not run")
	}
}

// EventResuming says that a task runs again because of its schedule or an operator.
func EventResuming(paused string) TaskEvent {
	if paused == RunByOperator {
		return EventMessage(TaskResuming, "An operator has the task run whatever its schedule says; drover alloc pause -state=scheduled ends that")
	}
	return EventMessage(TaskResuming, "The schedule has the task run")
}

// EventAwaitsDependency says what a task waits for.
func EventAwaitsDependency(what string) TaskEvent {
	return EventMessage(TaskAwaitsDependency, "The task waits for "+what)
}

// EventDependencyTimeout says that a task has waited for too long.
func EventDependencyTimeout(d *Dependency) TaskEvent {
	e := EventMessage(TaskDependencyTimeout, fmt.Sprintf("The task has waited %s for %s", d.Timeout, d))
	e.FailsTask = true
	e.Details["fails_task"] = "true"
	return e
}

// EventUpdateFailed says why the running task could not get other resources.
func EventUpdateFailed(why string) TaskEvent {
	text := "The resources of the running task could not be changed: " + why
	return TaskEvent{Type: TaskUpdateFailed, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}
}
