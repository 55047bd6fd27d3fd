// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// ScalingEvent is a requested change of a group's count, or a message without a
// change.
type ScalingEvent struct {
	Time          int64  // Unix ns
	Count         *int64 // nil for a message
	PreviousCount int64
	Error         bool // whether the message reports an error
	Message       string
	Meta          map[string]any
	EvalID        *string // evaluation of the change; nil for a message
	CreateIndex   uint64
}
