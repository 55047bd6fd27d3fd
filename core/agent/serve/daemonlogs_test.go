// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeRuns has the runs of a task one after another. The output of a run ends with its error,
// and the next run begins; the last one goes on until its reader goes.
type fakeRuns struct {
	runs []fakeRun
	now  int
}

type fakeRun struct {
	id, output string
	ends       error
}

func (f *fakeRuns) OutputOf(context.Context, string) (alloc.TaskRun, error) {
	return alloc.TaskRun{Task: "t", TaskRef: driver.TaskRef{ID: f.runs[f.now].id}}, nil
}

func (f *fakeRuns) Ended() bool { return false }

func (f *fakeRuns) ReadOutput(ctx context.Context, run alloc.TaskRun, q driver.LogQuery, send func(driver.LogPiece) error) error {
	r := f.runs[f.now]
	if from := min(int(q.Offset), len(r.output)); from < len(r.output) {
		if err := send(driver.LogPiece{Offset: int64(from), Data: []byte(r.output[from:])}); err != nil {
			return err
		}
	}
	if f.now == len(f.runs)-1 {
		<-ctx.Done()
		return ctx.Err()
	}
	f.now++
	return r.ends
}

func follow(t *testing.T, do func(ctx context.Context, s *streamer) error) (string, error) {
	t.Helper()
	var got strings.Builder
	var err error
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), heartbeatEvery)
		defer cancel()
		s := newStreamer(ctx, func(f *model.StreamFrame) error { got.Write(f.Data); return nil })
		defer s.wake.close()
		err = endOfFollow(ctx, do(ctx, s))
	})
	return got.String(), err
}

func TestAFollowerReadsTheNextRunFromItsBeginningHoweverTheOneBeforeEnded(t *testing.T) {
	for name, ends := range map[string]error{
		"read to its end": nil,
		"interrupted":     errdefs.Unavailablef("the connection broke"),
		"gone before":     errdefs.NotFoundf("no such task"),
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeRuns{runs: []fakeRun{{"one", "", ends}, {"two", "up one\ngot USR2\n", ends}, {"three", "up two\n", nil}}}
			got, err := follow(t, func(ctx context.Context, s *streamer) error {
				return (&daemonReader{runner: f, q: rpc.LogRequest{Task: "t", Type: "stdout", Follow: true}, s: s}).run(ctx)
			})
			if want := "up one\ngot USR2\nup two\n"; got != want || err != nil {
				t.Errorf("%q, want %q: %v", got, want, err)
			}
		})
	}
}

// notStarted is an alloc whose task starts when it is asked the third time, and has log files
// from then on.
type notStarted struct {
	fakeRuns
	asked int
}

func (n *notStarted) OutputOf(ctx context.Context, task string) (alloc.TaskRun, error) {
	if n.asked++; n.asked < 3 {
		return alloc.TaskRun{}, nil
	}
	return n.fakeRuns.OutputOf(ctx, task)
}

func TestAFollowerOfATaskThatHasNotStartedReadsTheLogFilesThatItsStartMakes(t *testing.T) {
	for name, files := range map[string]bool{"files": true, "the driver's config keeps none": false} {
		t.Run(name, func(t *testing.T) {
			n := &notStarted{fakeRuns: fakeRuns{runs: []fakeRun{{id: "one"}}}}
			var found bool
			_, err := follow(t, func(ctx context.Context, s *streamer) (err error) {
				d := &daemonReader{runner: n, q: rpc.LogRequest{Task: "t", Type: "stdout", Follow: true}, s: s}
				found, err = d.awaitFiles(ctx, func() (bool, error) { return files && n.asked >= 3, nil })
				return err
			})
			if found != files || n.asked != 3 || err != nil {
				t.Errorf("found %t after %d questions: %v", found, n.asked, err)
			}
		})
	}
}
