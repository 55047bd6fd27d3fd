// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// FileInfo describes a file of an alloc's directory.
type FileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string `json:",omitempty"`
}

// StreamFrame is one piece of a streamed file or log. A frame without File is a heartbeat.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"` // position in the file after Data
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// IsHeartbeat reports whether the frame only keeps the connection alive.
func (f *StreamFrame) IsHeartbeat() bool {
	return f.Offset == 0 && len(f.Data) == 0 && f.File == "" && f.FileEvent == ""
}
