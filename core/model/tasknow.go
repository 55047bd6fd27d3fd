// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// AllocTasks is the current activity of an alloc's tasks, by name. Only the node knows it;
// servers ask the node when a user does. It is never stored.
type AllocTasks struct {
	Tasks map[string]*TaskNow
}

// TaskNow is what a task does now. Start is nil while no start of it is under way. Paused
// means that its driver reports the task as paused.
type TaskNow struct {
	Start  *TaskStart `json:",omitempty"`
	Paused bool       `json:",omitempty"`
}

// TaskStart is a start of a task that is under way.
type TaskStart struct {
	Step     string    // the current step, such as "driver start"
	Since    time.Time // when the step began
	Deadline time.Time // when the step has failed; zero if nothing on the node ends it
	Detail   string    `json:",omitempty"` // what it waits for, in words
	// LastError is why the previous start failed.
	LastError string `json:",omitempty"`
	// Progress is the driver's progress in its step; nil if the driver reports none.
	Progress *TaskProgress `json:",omitempty"`
}

// TaskProgress is how much of something is done. A Total of 0 is not known.
type TaskProgress struct {
	Phase string // such as "Downloading image"
	Done  int64
	Total int64
	Unit  string    // "bytes", or another plural
	At    time.Time // when the node heard of it
}

// TaskScheduleNow is what a task with a schedule has been told, and what it does.
type TaskScheduleNow struct {
	State  string    // one of the ScheduleState constants
	Paused string    // as TaskState.Paused
	Next   time.Time // when its window opens or closes next; zero means never
}
