// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package osthread_test

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/osthread"
)

func TestTheFunctionHasAThreadOfItsOwnThatEndsWithIt(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mine, its := unix.Gettid(), 0
	failure := errors.New("its own")
	if err := osthread.Do(func() error { its = unix.Gettid(); return failure }); !errors.Is(err, failure) {
		t.Fatalf("the error is %v", err)
	}
	if its == mine || its == unix.Getpid() {
		t.Errorf("it ran on thread %d; the caller is %d, the first %d", its, mine, unix.Getpid())
	}
	ended := func() bool {
		_, err := os.Stat("/proc/self/task/" + strconv.Itoa(its))
		return errors.Is(err, os.ErrNotExist)
	}
	for !ended() { // the test's own limit of time ends this if the thread stays
		runtime.Gosched()
	}
}

func TestNoneOfManyFunctionsHasTheFirstThread(t *testing.T) {
	const many = 50
	var all sync.WaitGroup
	at, release := make(chan int, many), make(chan struct{})
	for range many {
		all.Go(func() {
			_ = osthread.Do(func() error {
				at <- unix.Gettid()
				<-release // so that all have a thread at once
				return nil
			})
		})
	}
	seen := map[int]bool{}
	for range many {
		seen[<-at] = true
	}
	close(release)
	all.Wait()
	if len(seen) != many || seen[unix.Getpid()] {
		t.Errorf("%d threads, the first among them: %v", len(seen), seen[unix.Getpid()])
	}
}
