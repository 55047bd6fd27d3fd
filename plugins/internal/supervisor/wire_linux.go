// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The protocol consists of frames: a 4-byte big-endian length and a JSON body.
// Requests of one connection may be answered in any order.

// protocolVersion is incremented when newer clients can no longer talk to older
// supervisors.
const protocolVersion = 1

// maxFrame is the size of a frame in bytes. An environment is far smaller.
const maxFrame = 16 << 20

const (
	opHello = "hello"
	opStart = "start"
	// An isolated start has its own verb, so that a supervisor that is too old to
	// isolate rejects it instead of running the task without isolation.
	opIsolate = "start-isolated"
	// So do starts with secrets: one that is too old would leave them out.
	opStartSecret   = "start-secret"
	opIsolateSecret = "start-isolated-secret"
	opWait          = "wait"
	opStop          = "stop"
	opSignal        = "signal"
	opDestroy       = "destroy"
	opInspect       = "inspect"
	opSpec          = "spec"
	opList          = "list"
	opUpgrade       = "upgrade"
	opShutdown      = "shutdown"
)

type request struct {
	Seq       uint64 `json:"seq"`
	Op        string `json:"op"`
	ID        string `json:"id,omitempty"`
	Spec      *Spec  `json:"spec,omitempty"`
	Signal    int    `json:"signal,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Force     bool   `json:"force,omitempty"`
	Path      string `json:"path,omitempty"` // of the binary to execute; "" for the same as now
	// Mounts is the file of the mount namespace in which the new binary runs; "" for the
	// supervisor's own.
	Mounts string `json:"mounts,omitempty"`
	// Until is the uptime after which the request must not be started any more; 0 means
	// no limit. By then the client has given up and reported the request as failed.
	Until int64 `json:"until,omitempty"`
}

// expires reports whether the request is a start or a signal, which must not be
// carried out after its time.
func (r *request) expires() bool {
	switch r.Op {
	case opStart, opIsolate, opStartSecret, opIsolateSecret, opSignal:
		return true
	}
	return false
}

// stale returns an error if the request comes too late.
func (r *request) stale() error {
	if r.Until == 0 || uptime() < r.Until {
		return nil
	}
	return errdefs.DeadlineExceededf("%s: the request reached the supervisor after its deadline; try again", r.Op)
}

// uptime returns the nanoseconds since boot. Nobody can set this clock, and all
// processes share it.
func uptime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // every kernel has this clock
	return t.Nano()
}

type response struct {
	Seq    uint64   `json:"seq"`
	Class  string   `json:"class,omitempty"`
	Error  string   `json:"error,omitempty"`
	Reason string   `json:"reason,omitempty"` // errdefs.ReasonOf the error
	Status *Status  `json:"status,omitempty"`
	Spec   *Spec    `json:"spec,omitempty"`
	List   []Status `json:"list,omitempty"`
	Hello  *Hello   `json:"hello,omitempty"`
}

func (r *response) fail(err error) {
	r.Class, r.Error, r.Reason = string(errdefs.ClassOf(err)), err.Error(), errdefs.ReasonOf(err)
}

// Hello identifies a supervisor.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
	Keeper  int `json:"keeper"`
	// Binary identifies the file that the supervisor runs, see Identity.
	Binary string `json:"binary"`
	// Mounts identifies the mount namespace in which the supervisor starts tasks; "" if it
	// is too old to say so.
	Mounts string `json:"mounts,omitempty"`
}

func encodeFrame(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode a supervisor message: %w", err)
	}
	frame := make([]byte, 4, 4+len(body))
	binary.BigEndian.PutUint32(frame, uint32(len(body)))
	return append(frame, body...), nil
}

// nextFrame splits the first complete frame off buf. body is nil if there is none.
func nextFrame(buf []byte) (body, rest []byte, err error) {
	if len(buf) < 4 {
		return nil, buf, nil
	}
	n := int(binary.BigEndian.Uint32(buf))
	if n > maxFrame {
		return nil, nil, fmt.Errorf("supervisor message of %d bytes: more than the limit of %d", n, maxFrame)
	}
	if len(buf) < 4+n {
		return nil, buf, nil
	}
	return buf[4 : 4+n], buf[4+n:], nil
}
