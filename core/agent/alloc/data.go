// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Data fetches the data of allocs from other nodes.
type Data interface {
	// Fetch fetches the data of the previous alloc allocID: it calls waits with a description
	// of what it waits for, and take with the data. See final for the errors after which a
	// repetition, from the beginning, may help.
	Fetch(ctx context.Context, allocID string, waits func(string), take func([]byte) error) error
}

// NewPace limits how many bytes of data a node fetches in a second, for all of its allocs.
func NewPace(bytesPerSecond int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(bytesPerSecond), max(bytesPerSecond/4, 1<<20))
}

// SendData writes the data of the ended alloc, for the node of the alloc that replaces it.
// The alloc is not removed meanwhile.
func (r *Runner) SendData(w io.Writer, tasks []string) error {
	r.mu.Lock()
	ended, disk := r.ended, r.group.EphemeralDisk
	if ended && disk.Moves() {
		r.readers++
	}
	r.mu.Unlock()
	switch {
	case !ended:
		return errdefs.Unavailablef("alloc %s has not ended on its node yet", r.id)
	case !disk.Moves():
		return errdefs.FailedPreconditionf("the group of alloc %s does not have its data moved", r.id)
	}
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.readers--
	}()
	return r.dir.Send(w, tasks, r.defaultOwner())
}

// defaultOwner returns the user of tasks that name none: the id of the alloc, if it has
// one, or else the driver's default.
func (r *Runner) defaultOwner() allocdir.Owner {
	r.mu.Lock()
	uid, tasks := r.uid, r.group.Tasks
	r.mu.Unlock()
	if uid != 0 {
		return allocdir.Owner{UID: uid, GID: uid}
	}
	var capabilities driver.Capabilities
	for _, t := range tasks {
		if d, err := r.cfg.Drivers.Driver(t.Driver); err == nil && t.User == "" {
			capabilities = d.Info().Capabilities
			break
		}
	}
	if capabilities.UnknownUser || capabilities.DefaultUser == "" {
		return allocdir.Owner{UID: os.Geteuid(), GID: os.Getegid()}
	}
	id, group := idsOf(capabilities.DefaultUser)
	return allocdir.Owner{UID: id, GID: group}
}

// receiver returns the owner of the received data: the alloc's own id, if its tasks will
// get one.
func (r *Runner) receiver(ctx context.Context) (allocdir.Owner, error) {
	r.mu.Lock()
	p := &preparation{Runner: r, alloc: r.alloc, group: r.group}
	r.mu.Unlock()
	dynamic := false
	for _, t := range p.group.Tasks {
		dynamic = dynamic || p.dynamic(t)
	}
	if dynamic && r.cfg.Users.Enabled() {
		if _, err := p.takeID(ctx); err != nil {
			return allocdir.Owner{}, err
		}
	}
	return r.defaultOwner(), nil
}

// movesFrom reports whether the data of an alloc has to come from another node.
func (r *Runner) movesFrom(before string) bool {
	disk := r.group.EphemeralDisk
	if before == "" || r.cfg.Data == nil || disk == nil || !disk.Sticky || !disk.Migrate {
		return false
	}
	if r.cfg.Previous != nil && r.cfg.Previous(before) != nil {
		return false
	}
	_, err := os.Lstat(allocdir.New(r.cfg.Root, before).Path)
	return errors.Is(err, os.ErrNotExist)
}

const (
	fetchPause    = 500 * time.Millisecond // after the first failed try; it doubles
	fetchPauseMax = 10 * time.Second
	mebibyte      = 1 << 20
)

// fetchData fetches the data of an alloc of another node. If that fails for good, the alloc
// starts without the data and its tasks' events say why, since it must not wait for ever.
// After a restart of the agent the fetch begins again from the start.
func (r *Runner) fetchData(ctx context.Context, before string) error {
	if err := r.buildDir(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	tasks := r.taskNames()
	most := int64(r.group.EphemeralDisk.SizeMB) * mebibyte
	r.mu.Unlock()
	for _, t := range tasks {
		if err := r.dir.BuildTask(t); err != nil {
			return err
		}
	}
	defer r.setFetching("", nil)
	if r.dir.Arrived(tasks) {
		return r.dir.Adopt(tasks)
	}
	f := fetching{r: r, tasks: tasks, most: most, left: r.cfg.Limits.Data}
	sum, err := f.untilDone(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		r.logger.Warn("the data of the previous alloc was not moved", "previous", before, "error", err)
		r.noteTasks(fmt.Sprintf("The data of alloc %s was not moved, so the task starts without it: %v", before, err))
		return r.dir.Discard(tasks)
	}
	if err := r.dir.Adopt(tasks); err != nil {
		return err
	}
	text := fmt.Sprintf("The data of alloc %s has been moved here: %d files and folders, %s", before, sum.Entries, bytesText(sum.Bytes))
	if sum.Skipped > 0 {
		text += fmt.Sprintf("; %d devices, sockets, FIFOs and too long paths were left behind", sum.Skipped)
	}
	r.noteTasks(text)
	return nil
}

// noteTasks adds an event with a text to every task.
func (r *Runner) noteTasks(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e effects
	r.noteAll(model.TaskEvent{Type: model.TaskHookMessage, Message: text, DisplayMessage: text, Details: map[string]string{"message": text}}, &e)
	r.settle(&e)
}

// fetching is one move of data to this node. left is the remaining time. The wait for the
// end of the previous alloc does not count, because servers bound it.
type fetching struct {
	r     *Runner
	tasks []string
	most  int64
	left  time.Duration
}

func (f *fetching) untilDone(ctx context.Context) (allocdir.Summary, error) {
	for pause := fetchPause; ; pause = min(2*pause, fetchPauseMax) {
		sum, err := f.try(ctx)
		if err == nil || ctx.Err() != nil || final(err) {
			return sum, err
		}
		if f.left -= pause; f.left <= 0 {
			return sum, errdefs.DeadlineExceededf("it was not complete within %s: %w", f.r.cfg.Limits.Data, err)
		}
		f.r.setFetching(fmt.Sprintf("tries again in %s: %v", pause, err), nil)
		if !f.r.pauseIn(ctx, pause) {
			return sum, ctx.Err()
		}
	}
}

// final reports whether a repetition does not help.
func final(err error) bool {
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound, errdefs.PermissionDenied, errdefs.FailedPrecondition, errdefs.InvalidArgument, errdefs.Unimplemented, errdefs.DeadlineExceeded:
		return true
	}
	return false
}

// try fetches the data from its beginning.
func (f *fetching) try(ctx context.Context) (sum allocdir.Summary, err error) {
	owner, err := f.r.receiver(ctx)
	if err != nil {
		return sum, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := f.r.cfg.Now()
	limit := time.AfterFunc(f.left, func() {
		cancel(errdefs.DeadlineExceededf("it was not complete within %s", f.r.cfg.Limits.Data))
	})
	defer limit.Stop()
	spend := func() { now := f.r.cfg.Now(); f.left -= now.Sub(began); began = now }
	out, in := io.Pipe()
	fetched := make(chan error, 1)
	go func() {
		waiting := false
		err := f.r.cfg.Data.Fetch(ctx, f.r.id, func(text string) {
			if !waiting {
				waiting = true
				spend()
				limit.Stop()
			}
			f.r.setFetching(text, nil)
		}, func(data []byte) error {
			if waiting {
				waiting, began = false, f.r.cfg.Now()
				limit.Reset(f.left)
			}
			if err := f.pace(ctx, len(data)); err != nil {
				return err
			}
			_, err := in.Write(data)
			return err
		})
		if !waiting {
			spend()
		}
		in.CloseWithError(err) // nil becomes io.EOF
		fetched <- err
	}()
	sum, err = f.r.dir.Receive(out, f.tasks, allocdir.Receipt{MostBytes: f.most, Owner: owner, Room: f.r.dir.Room, Progress: func(done, total int64) {
		f.r.setFetching("", &driver.Progress{Phase: "Moving data", Done: done, Total: total, Unit: "bytes"})
	}})
	if err == nil {
		_, err = io.Copy(io.Discard, out) // the end of the archive
	}
	out.CloseWithError(errDone)
	if ended := <-fetched; ended != nil && !errors.Is(ended, errDone) && (err == nil || errors.Is(err, ended)) {
		err = ended
	}
	if cause := context.Cause(ctx); cause != nil && errdefs.IsDeadlineExceeded(cause) {
		err = cause
	}
	return sum, err
}

// errDone ends a fetch whose data is not read any more.
var errDone = errors.New("the rest is not read")

// pace waits until the node may have fetched n more bytes.
func (f *fetching) pace(ctx context.Context, n int) error {
	if f.r.cfg.DataPace == nil {
		return nil
	}
	for n > 0 {
		part := min(n, f.r.cfg.DataPace.Burst())
		if err := f.r.cfg.DataPace.WaitN(ctx, part); err != nil {
			return errdefs.Canceledf("the move of data was given up: %w", err)
		}
		n -= part
	}
	return nil
}

// setFetching sets the progress of the move of data that users see.
func (r *Runner) setFetching(waits string, p *driver.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fetchingDetail, r.fetchingProgress = waits, nil
	if p != nil {
		r.fetchingDetail, r.fetchingProgress = p.String(), &StartProgress{Progress: *p, At: r.cfg.Now()}
	}
}

// groupStatus returns the step of the group that a task waits for; r.mu is held.
func (r *Runner) groupStatus() (StepStatus, bool) {
	step := r.phase.Current()
	if step == nil {
		return StepStatus{}, false
	}
	out := StepStatus{Step: step.Name, Since: step.Since, Deadline: step.Deadline, LastError: step.LastError}
	if tearsDown(r.phase) {
		out.Detail = "is torn down by the " + step.Owner
		if r.phase.Phase == group.Lingering {
			out.Detail += "; next try at " + r.phase.WakeAt.UTC().Format(time.RFC3339)
		}
		return out, true
	}
	if step.Name == GroupPreviousData {
		out.Detail, out.Progress = r.fetchingDetail, r.fetchingProgress
	}
	if step.Name == GroupClaims {
		out.Detail = r.groupDetail
	}
	if out.Detail == "" {
		out.Detail = "waits for the " + step.Owner
	}
	return out, true
}

func bytesText(n int64) string {
	if n < mebibyte {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/mebibyte)
}
