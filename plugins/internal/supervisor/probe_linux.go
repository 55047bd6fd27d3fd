// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor

import (
	"bufio"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A supervisor that runs and does not answer is as bad as none: no task starts or
// stops. The keeper asks it every probeEvery, and kills one that has not answered
// for hangLimit. The tasks go on, and the next supervisor adopts them.
const (
	probeEvery = 3 * time.Second
	hangLimit  = 10 * time.Second
	// probeTick: only time in which the keeper itself runs counts. A machine that
	// was paused as a whole has nothing that hangs.
	probeTick = 100 * time.Millisecond
)

// probeEnv overrides hangLimit and probeEvery, for tests.
const probeEnv = "DROVER_SUPERVISOR_HANG"

// HangLimits returns how long a supervisor may take to answer before it counts as
// hung, and how often it is asked.
func HangLimits() (limit, every time.Duration) {
	if d, err := time.ParseDuration(os.Getenv(probeEnv)); err == nil {
		return d, d
	}
	return hangLimit, probeEvery
}

// watch replaces supervisors that hang; it never returns.
func (k *keeper) watch() {
	limit, every := HangLimits()
	for {
		time.Sleep(every)
		pid := k.supervisor()
		if pid == 0 || answers(k.journal.dir, int(limit/probeTick)) {
			continue
		}
		k.replace(pid)
	}
}

func (k *keeper) supervisor() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.pid
}

// replace kills a supervisor, unless it has ended by itself.
func (k *keeper) replace(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pid != pid {
		return
	}
	k.log.Error("the supervisor does not answer and is replaced; its tasks go on", "pid", pid)
	_ = unix.Kill(pid, unix.SIGKILL) // it is our child and not reaped
}

// answers asks the supervisor who it is and reports whether it answers, in any way,
// within a number of ticks. One that is gone, or goes meanwhile, does not hang.
func answers(dir string, ticks int) bool {
	conn, err := dial(dir)
	if err != nil {
		// A full queue of connections is one that nobody takes.
		return !errors.Is(err, unix.EAGAIN)
	}
	defer conn.Close()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		frame, err := encodeFrame(&request{Seq: 1, Op: opHello})
		if err == nil {
			_, err = conn.Write(frame)
		}
		if err == nil {
			_, _ = readResponse(bufio.NewReader(conn)) // an end of the connection is an answer
		}
	}()
	tick := time.NewTicker(probeTick)
	defer tick.Stop()
	for range ticks {
		select {
		case <-answered:
			return true
		case <-tick.C:
		}
	}
	return false
}
