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

// A supervisor that runs but does not answer can neither start nor stop tasks. The
// keeper checks it every probeEvery, and kills it if it has not answered for
// hangLimit. The tasks keep running, and the next supervisor adopts them.
const (
	probeEvery = 3 * time.Second
	hangLimit  = 10 * time.Second
	// probeTick is the unit of the limits. Only ticks in which the keeper itself runs
	// count, so that nothing is killed after the whole machine was paused.
	probeTick = 100 * time.Millisecond
)

// probeEnv overrides hangLimit and probeEvery, for tests.
const probeEnv = "DROVER_SUPERVISOR_HANG"

// HangLimits returns the time after which a supervisor that does not answer counts
// as hung, and the interval of the checks.
func HangLimits() (limit, every time.Duration) {
	if d, err := time.ParseDuration(os.Getenv(probeEnv)); err == nil {
		return d, d
	}
	return hangLimit, probeEvery
}

// watch kills supervisors that hang. It never returns.
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

// replace kills a supervisor, unless it has already ended.
func (k *keeper) replace(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pid != pid {
		return
	}
	k.log.Error("the supervisor does not answer and is replaced; its tasks keep running", "pid", pid)
	_ = unix.Kill(pid, unix.SIGKILL) // our child, and not reaped yet
}

// answers connects to the supervisor and reports whether it reacts in any way within
// a number of ticks. A supervisor that is gone, or ends meanwhile, does not hang.
func answers(dir string, ticks int) bool {
	conn, err := dial(dir)
	if err != nil {
		// The queue of connections is full, because nobody accepts them.
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
			_, _ = readResponse(bufio.NewReader(conn)) // a closed connection counts as an answer
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
