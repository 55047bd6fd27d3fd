// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"bytes"
	"context"
	"io"
	"sync"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"
)

// execSender sends input and terminal sizes of one exec. It serializes them, because
// gRPC allows only one Send at a time.
type execSender struct {
	mu sync.Mutex
	s  execClient
}

func newExecSender(s execClient) *execSender { return &execSender{s: s} }

// send returns false once the stream is closed.
func (e *execSender) send(m *driverv1.ExecTaskRequest) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.s.Send(m) == nil
}

// stdin sends the input. Its goroutine may outlive the exec while it is blocked in a
// Read of the caller's reader; it ends when that Read returns.
func (e *execSender) stdin(r io.Reader) {
	buf := make([]byte, 32<<10)
	for r != nil {
		n, err := r.Read(buf)
		if n > 0 && !e.send(&driverv1.ExecTaskRequest{Message: &driverv1.ExecTaskRequest_Stdin{Stdin: bytes.Clone(buf[:n])}}) {
			return
		}
		if err != nil {
			break
		}
	}
	e.send(&driverv1.ExecTaskRequest{Message: &driverv1.ExecTaskRequest_StdinClosed{StdinClosed: true}})
}

func (e *execSender) resizes(ctx context.Context, sizes <-chan TerminalSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-sizes:
			if !ok || !e.send(&driverv1.ExecTaskRequest{Message: &driverv1.ExecTaskRequest_Resize{Resize: sizeToPB(size)}}) {
				return
			}
		}
	}
}
