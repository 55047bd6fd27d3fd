// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/internal/testkit/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (r *rig) signal(pid int, s syscall.Signal) {
	r.t.Helper()
	r.must(syscall.Kill(pid, s))
}

// freeze stops a process and waits until none of its threads runs.
func (r *rig) freeze(pid int) {
	r.t.Helper()
	r.must(process.Stop(pid))
}

func (r *rig) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(r.ctx, d)
	r.t.Cleanup(cancel)
	return ctx
}

func TestHostileAStartThatWaitedInAStoppedSupervisorUntilNobodyWantedItNeverComesUp(t *testing.T) {
	r := newRig(t)
	pid := r.hello().PID
	for range 10 {
		r.freeze(pid)
		if _, err := r.Start(r.within(50*time.Millisecond), r.sh("late", "touch came-up; sleep 600")); !errdefs.IsDeadlineExceeded(err) {
			t.Fatalf("a start that a stopped supervisor has: %v", err)
		}
		r.signal(pid, syscall.SIGCONT)
		if got := r.hello().PID; got != pid { // it has answered all earlier requests
			t.Fatalf("the supervisor is %d, was %d", got, pid)
		}
		list, err := r.List(r.ctx)
		r.must(err)
		if len(list) != 0 {
			t.Fatalf("a task came up that nobody waits for: %+v", list)
		}
	}
	if _, err := os.Stat(filepath.Join(r.root, "came-up")); !os.IsNotExist(err) {
		t.Errorf("the task ran: %v", err)
	}
	// A request that is not late is carried out.
	r.freeze(pid)
	time.AfterFunc(50*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	r.start("early", "exit 3")
	if e := r.wait("early"); e.Code != 3 {
		t.Errorf("exit %+v", e)
	}
}

func TestHostileAStartOfAClientThatIsGoneNeverComesUp(t *testing.T) {
	r := newRig(t)
	pid := r.hello().PID
	r.freeze(pid)
	done := make(chan error, 1)
	client := r.Client
	go func() {
		_, err := client.Start(r.within(10*time.Second), r.sh("orphan", "sleep 600"))
		done <- err
	}()
	// When the client gives up, the request is already in the socket.
	if _, err := r.Hello(r.within(100 * time.Millisecond)); err == nil {
		t.Fatal("a stopped supervisor answered")
	}
	r.must(client.Close())
	if err := <-done; err == nil {
		t.Fatal("a start without an answer succeeded")
	}
	r.signal(pid, syscall.SIGCONT)
	r.reopen()
	list, err := r.List(r.ctx)
	r.must(err)
	if len(list) != 0 {
		t.Errorf("a task came up that nobody waits for: %+v", list)
	}
}

func TestHostileASupervisorThatHangsIsReplacedAndItsTasksGoOn(t *testing.T) {
	t.Setenv("DROVER_SUPERVISOR_HANG", "1s")
	r := newRig(t)
	s := r.start("a", `while [ ! -e go ]; do echo tick; sleep 0.005; done; exit 9`)
	for range 3 {
		old := r.hello()
		r.freeze(old.PID)
		// A start during the hang succeeds after the supervisor was replaced.
		id := "b"
		if _, err := r.Start(r.within(time.Minute), r.sh(id, "sleep 600")); err != nil {
			t.Fatalf("a start while the supervisor hangs: %v; %s", err, r.supervisorLog())
		}
		now := r.hello()
		if now.PID == old.PID || now.Keeper != old.Keeper {
			t.Fatalf("after a supervisor hung: %+v, before %+v", now, old)
		}
		if a, err := r.Inspect(r.ctx, "a"); err != nil || a.PID != s.PID || a.Exit != nil {
			t.Fatalf("the task: %+v, %v", a, err)
		}
		r.must(r.Destroy(r.ctx, id, true))
	}
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	if e := r.wait("a"); e.Code != 9 || e.Unknown != "" {
		t.Errorf("exit %+v", e)
	}
}

func TestAPauseOfTheWholeMachineReplacesNoSupervisor(t *testing.T) {
	t.Setenv("DROVER_SUPERVISOR_HANG", "2s")
	r := newRig(t)
	h := r.hello()
	for range 2 {
		r.signal(h.Keeper, syscall.SIGSTOP)
		r.freeze(h.PID)
		paused := time.Now()
		r.eventually("a pause is over", func() bool { return time.Since(paused) > 3*time.Second })
		r.signal(h.Keeper, syscall.SIGCONT) // at first it notices only that time has passed
		r.signal(h.PID, syscall.SIGCONT)
		if now := r.hello(); now.PID != h.PID {
			t.Fatalf("after a pause of both: %+v, before %+v; %s", now, h, r.supervisorLog())
		}
	}
}
