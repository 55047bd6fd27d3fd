// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// farData is the data of an alloc of another node, as servers pass it on.
type farData struct {
	tries atomic.Int64
	do    func(ctx context.Context, try int64, waits func(string), take func([]byte) error) error
}

func (d *farData) Fetch(ctx context.Context, allocID string, waits func(string), take func([]byte) error) error {
	return d.do(ctx, d.tries.Add(1), waits, take)
}

// stream is what another node sends of an alloc that has a file "first" in its data.
func stream(t *testing.T) []byte {
	t.Helper()
	from := allocdir.New(t.TempDir(), "a0")
	if err := from.Build(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from.Shared(), "data", "first"), bytes.Repeat([]byte("x"), 3000), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := from.Send(&out, []string{"web"}, allocdir.Owner{}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mover is an alloc whose data comes from another node.
func mover(b *bed, do func(ctx context.Context, try int64, waits func(string), take func([]byte) error) error) (*model.Allocation, *farData) {
	data := &farData{do: do}
	b.cfg.Data = data
	a := newAlloc(newTask("web"))
	a.PreviousAllocation = "a0"
	a.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true, Migrate: true, SizeMB: 10}
	return a, data
}

func TestDataComesFromAnotherNodeBeforeAnyTaskStarts(t *testing.T) {
	sent := stream(t)
	with(t, func(t *testing.T, b *bed) {
		ended, half := make(chan struct{}), make(chan struct{})
		a, data := mover(b, func(ctx context.Context, _ int64, waits func(string), take func([]byte) error) error {
			waits("waits until alloc a0 has ended on node n2")
			select {
			case <-ended:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := take(sent[:2500]); err != nil {
				return err
			}
			<-half
			return take(sent[2500:])
		})
		b.run(a)
		time.Sleep(5 * time.Hour) // its own kill timeout ends this wait
		b.wants("", "pending")
		if s := b.r.Steps()[0]; s.Task != "web" || s.Step != alloc.GroupPreviousData || !strings.Contains(s.Detail, "waits until alloc a0") {
			t.Errorf("it says %+v", s)
		}
		close(ended)
		synctest.Wait()
		b.wants("", "pending")
		if s := b.r.Steps()[0]; s.Progress == nil || s.Progress.Total != 3000 || !strings.Contains(s.Detail, "Moving data") {
			t.Errorf("it says %+v", s)
		}
		if b.hasData("first") {
			t.Error("a part of the data is there")
		}
		close(half)
		synctest.Wait()
		b.wants("web", "running")
		b.hasEvent("web", "The data of alloc a0 has been moved here")
		if !b.hasData("first") || data.tries.Load() != 1 {
			t.Errorf("the data was fetched %d times", data.tries.Load())
		}
		if s := b.r.Steps()[0]; s.Step != "" {
			t.Errorf("it still says %+v", s)
		}
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
		if data.tries.Load() != 1 {
			t.Error("the data was fetched again after a restart of the agent")
		}
	})
}

func TestDataIsFetchedAnewAfterAnInterruption(t *testing.T) {
	sent := stream(t)
	with(t, func(t *testing.T, b *bed) {
		a, data := mover(b, func(ctx context.Context, try int64, _ func(string), take func([]byte) error) error {
			switch try {
			case 1: // the source breaks off
				return errorsOf(take(sent[:2500]), errdefs.Unavailablef("the session of the node broke off"))
			case 2: // and ends without an error
				return take(sent[:2500])
			case 3: // the agent is killed in the middle
				return errorsOf(take(sent[:2500]), untilEnd(ctx))
			}
			return take(sent)
		})
		b.run(a)
		time.Sleep(10 * time.Second)
		if data.tries.Load() != 3 {
			t.Fatalf("%d tries", data.tries.Load())
		}
		b.wants("", "pending")
		b.restart(nil)
		synctest.Wait()
		b.wants("web", "running")
		if !b.hasData("first") || data.tries.Load() != 4 {
			t.Errorf("there after %d tries: %v", data.tries.Load(), b.hasData("first"))
		}
	})
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func untilEnd(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestAnAllocStartsWithoutDataThatCannotBeHadAndSaysWhy(t *testing.T) {
	sent := stream(t)
	for name, c := range map[string]struct {
		do   func(ctx context.Context, try int64, waits func(string), take func([]byte) error) error
		says string
		size int
	}{
		"its node is lost in the middle": {do: func(_ context.Context, try int64, _ func(string), take func([]byte) error) error {
			if try == 1 {
				return errorsOf(take(sent[:2500]), errdefs.Unavailablef("broken"))
			}
			return errdefs.NotFoundf("node n2, which has the data of alloc a0, cannot be asked: the node is down")
		}, says: "the node is down"},
		"servers of the release before": {do: func(context.Context, int64, func(string), func([]byte) error) error {
			return errdefs.Unimplementedf("unknown method AllocData")
		}, says: "unknown method"},
		"not this node's": {do: func(context.Context, int64, func(string), func([]byte) error) error {
			return errdefs.PermissionDeniedf("none of node")
		}, says: "none of node"},
		"too much": {do: func(_ context.Context, _ int64, _ func(string), take func([]byte) error) error { return take(sent) }, size: -1, says: "make size larger"},
		"garbage": {do: func(_ context.Context, _ int64, _ func(string), take func([]byte) error) error {
			return take(bytes.Repeat([]byte("x"), 4096))
		}, says: "not an archive"},
		"a stream that does not go on": {do: func(ctx context.Context, _ int64, _ func(string), take func([]byte) error) error {
			return errorsOf(take(sent[:2500]), untilEnd(ctx))
		}, says: "not complete within 1h"},
		"servers that are away for ever": {do: func(context.Context, int64, func(string), func([]byte) error) error {
			return errdefs.Unavailablef("no server answers")
		}, says: "not complete within 1h"},
	} {
		t.Run(name, func(t *testing.T) {
			with(t, func(t *testing.T, b *bed) {
				a, _ := mover(b, c.do)
				if c.size != 0 {
					a.Job.TaskGroups[0].EphemeralDisk.SizeMB = 0
				}
				b.run(a)
				time.Sleep(2 * time.Hour)
				b.wants("web", "running")
				b.hasEvent("web", "was not moved, so the task starts without it")
				b.hasEvent("web", c.says)
				if b.hasData("first") {
					t.Error("a part of the data is there")
				}
				if _, err := os.Stat(filepath.Join(b.r.Dir().Task("web"), "private", "moved")); err == nil {
					t.Error("something is left of the move")
				}
			})
		})
	}
}

func TestAMoveOfDataThatIsSlowSaysWhatItWaitsFor(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a, _ := mover(b, func(context.Context, int64, func(string), func([]byte) error) error {
			return errdefs.ResourceExhaustedf("the disk has no room")
		})
		b.run(a)
		time.Sleep(time.Minute)
		b.hasEvent("web", `step "previous alloc's data" of the group has taken 30s: tries again in`)
		b.hasEvent("web", "the disk has no room")
	})
}

func TestAnAllocThatIsStoppedWhileItsDataMovesNeverStarts(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a, _ := mover(b, func(ctx context.Context, _ int64, waits func(string), _ func([]byte) error) error {
			waits("waits")
			return untilEnd(ctx)
		})
		b.run(a)
		synctest.Wait()
		b.r.Update(stopped(a))
		synctest.Wait()
		b.wants("", "complete")
	})
}

func TestDataOfThisNodeIsTakenOverAndNotFetched(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a, data := mover(b, func(context.Context, int64, func(string), func([]byte) error) error { return nil })
		leave(t, b, "here")
		b.run(a)
		synctest.Wait()
		b.wants("web", "running")
		if !b.hasData("here") || data.tries.Load() != 0 {
			t.Errorf("fetched %d times", data.tries.Load())
		}
	})
}

func TestOnlyAnEndedAllocWhoseDataMovesSendsItAndItIsNotRemovedMeanwhile(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		a.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true, Migrate: true, SizeMB: 10}
		b.run(a)
		synctest.Wait()
		if err := b.r.SendData(io.Discard, []string{"web"}); !errdefs.IsUnavailable(err) {
			t.Errorf("a running alloc: %v", err)
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		out, in := io.Pipe()
		sent := make(chan error, 1)
		go func() {
			err := b.r.SendData(in, []string{"web"})
			in.Close()
			sent <- err
		}()
		if _, err := out.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := b.r.Destroy(t.Context()); !errdefs.IsUnavailable(err) || !b.r.BeingRead() {
			t.Errorf("it was removed while it is read: %v", err)
		}
		go io.Copy(io.Discard, out)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		if err := b.r.Destroy(t.Context()); err != nil {
			t.Error(err)
		}
	})
	with(t, func(t *testing.T, b *bed) {
		a := newAlloc(newTask("web"))
		b.run(a)
		b.r.Update(stopped(a))
		synctest.Wait()
		if err := b.r.SendData(io.Discard, []string{"web"}); !errdefs.IsFailedPrecondition(err) {
			t.Errorf("an alloc whose data does not move: %v", err)
		}
	})
}
