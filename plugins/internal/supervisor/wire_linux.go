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

// The protocol: frames of a 4-byte big-endian length and a JSON body. Requests
// of one connection may be answered in any order.

// protocolVersion changes when a newer client cannot talk to an older supervisor.
const protocolVersion = 1

// maxFrame bounds one frame; an environment is far smaller.
const maxFrame = 16 << 20

const (
	opHello = "hello"
	opStart = "start"
	// An isolated start is a verb of its own, so that a supervisor that is too
	// old to isolate refuses it instead of running the task without.
	opIsolate  = "start-isolated"
	opWait     = "wait"
	opStop     = "stop"
	opSignal   = "signal"
	opDestroy  = "destroy"
	opInspect  = "inspect"
	opSpec     = "spec"
	opList     = "list"
	opUpgrade  = "upgrade"
	opShutdown = "shutdown"
)

type request struct {
	Seq       uint64 `json:"seq"`
	Op        string `json:"op"`
	ID        string `json:"id,omitempty"`
	Spec      *Spec  `json:"spec,omitempty"`
	Signal    int    `json:"signal,omitempty"`
	TimeoutMS int64  `json:"timeout_ms,omitempty"`
	Force     bool   `json:"force,omitempty"`
	Path      string `json:"path,omitempty"`
	// Until is the moment, by the clock of uptime, until which the request may be
	// begun; 0 for any. Who asked has given up by then and told others so.
	Until int64 `json:"until,omitempty"`
}

// expires: a start or a signal that comes after its time is worse than none.
func (r *request) expires() bool { return r.Op == opStart || r.Op == opIsolate || r.Op == opSignal }

// stale returns the error of a request that comes too late, nil for others.
func (r *request) stale() error {
	if r.Until == 0 || uptime() < r.Until {
		return nil
	}
	return errdefs.DeadlineExceededf("%s: the request waited for the supervisor until nobody waited for its answer any more; ask again", r.Op)
}

// uptime is a clock that nobody sets and that all processes of a boot share, in
// nanoseconds.
func uptime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // every kernel has it
	return t.Nano()
}

type response struct {
	Seq    uint64   `json:"seq"`
	Class  string   `json:"class,omitempty"`
	Error  string   `json:"error,omitempty"`
	Status *Status  `json:"status,omitempty"`
	Spec   *Spec    `json:"spec,omitempty"`
	List   []Status `json:"list,omitempty"`
	Hello  *Hello   `json:"hello,omitempty"`
}

// Hello is who a supervisor is.
type Hello struct {
	Version int `json:"version"`
	PID     int `json:"pid"`
	Keeper  int `json:"keeper"`
	// Binary names the file that the supervisor runs, see Identity.
	Binary string `json:"binary"`
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

// nextFrame splits the first whole frame off buf; body is nil if there is none yet.
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
