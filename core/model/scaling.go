// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// ScalingEvent is a change of a group's count that was asked for, or a message
// about one that was not.
type ScalingEvent struct {
	Time          int64  // Unix ns
	Count         *int64 // nil: a message only
	PreviousCount int64
	Error         bool // what the message says went wrong
	Message       string
	Meta          map[string]any
	EvalID        *string // of the change; nil: a message only
	CreateIndex   uint64
}
