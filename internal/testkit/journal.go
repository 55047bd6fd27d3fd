// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package testkit

import (
	"bytes"
	"sync"
)

// Journal is a log that several goroutines write.
type Journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (j *Journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// String returns what was written.
func (j *Journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
