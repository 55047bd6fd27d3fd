// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

// maxPayload is the number of bytes of a payload that are read. It is above the
// limit of every server.
const maxPayload = 1 << 20

func jobDispatch() spec {
	return spec{
		usage: "job dispatch [options] <parameterized job> [<input source>]", synopsis: "Starts an instance of a parameterized job", min: 1, max: 2, takes: "jobs",
		help: "The payload is read from the input source: a file, or - for standard input.",
		setup: func(fs *flag.FlagSet) run {
			meta := keyValues{}
			fs.Var(meta, "meta", "KEY=VALUE of the instance's metadata. May be given several times.")
			var (
				detach = detachFlag(fs)
				token  = fs.String("idempotency-token", "", "Dispatches only if no instance with this token exists.")
				prefix = fs.String("id-prefix-template", "", "Template for the prefix of the instance's id.")
				wait   = fs.Bool("wait", false, "Waits until the instance has ended; exits with an error if it failed.")
				show   = uiFlag(fs)
			)
			return ofJob(func(ctx context.Context, s *session, job *model.Job, rest []string) error {
				req := &api.JobDispatchRequest{JobID: job.ID, Meta: meta, IdempotencyToken: *token, IdPrefixTemplate: *prefix}
				if len(rest) == 1 {
					var err error
					if req.Payload, err = readPayload(rest[0], s.In); err != nil {
						return err
					}
				}
				res, err := s.client.DispatchJob(ctx, req)
				if err != nil {
					return err
				}
				s.pairs("Dispatched Job ID", res.DispatchedJobID, "Evaluation ID", s.id(res.EvalID))
				s.maybeUI(*show, uiJob(job.Namespace, res.DispatchedJobID))
				if *detach || res.EvalID == "" {
					return nil
				}
				s.printf("")
				if err := s.monitor(ctx, res.EvalID); err != nil || !*wait {
					return err
				}
				return s.awaitEnd(ctx, res.DispatchedJobID)
			})
		},
	}
}

func readPayload(path string, stdin io.Reader) ([]byte, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read the payload: %w", err)
		}
		defer f.Close()
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxPayload+1))
	if err != nil {
		return nil, fmt.Errorf("cannot read the payload: %w", err)
	}
	if len(b) > maxPayload {
		return nil, fmt.Errorf("the payload is larger than %d bytes; store it elsewhere and pass its address", maxPayload)
	}
	return b, nil
}

// awaitEnd waits until a batch job is dead. It returns an error if one of the allocs
// failed.
func (s *session) awaitEnd(ctx context.Context, jobID string) error {
	s.step("Waiting for job %q to end", jobID)
	q := &client.Query{}
	for {
		job, meta, err := s.client.Job(ctx, jobID, q)
		if err != nil {
			return err
		}
		if job.Status == model.JobStatusDead {
			break
		}
		q.WaitIndex, q.WaitTime = meta.Index, 5*time.Second
	}
	allocs, _, err := s.client.JobAllocations(ctx, jobID, false, nil)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(allocs, func(a *model.AllocListStub) bool {
		return a.ClientStatus != model.AllocClientStatusComplete && a.NextAllocation == ""
	}); i >= 0 {
		return fmt.Errorf("job %q ended, its allocation %q is %s; see: drover alloc status %s", jobID, s.id(allocs[i].ID), allocs[i].ClientStatus, s.id(allocs[i].ID))
	}
	s.step("Job %q ended", jobID)
	return nil
}

func jobPeriodicForce() spec {
	return spec{
		usage: "job periodic force [options] <job>", synopsis: "Starts an instance of a periodic job now", min: 1, max: 1, takes: "jobs",
		setup: func(fs *flag.FlagSet) run {
			detach := detachFlag(fs)
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				if !job.IsPeriodic() {
					return fmt.Errorf("job %q is not periodic", job.ID)
				}
				res, err := s.client.ForcePeriodic(ctx, job.ID)
				if err != nil {
					return err
				}
				s.printf("Force periodic successful")
				return s.follow(ctx, res.EvalID, *detach)
			})
		},
	}
}

func jobScalingEvents() spec {
	return spec{
		usage: "job scaling-events [options] <job>", synopsis: "Lists the changes of the counts of a job's groups, and their reasons", min: 1, max: 1, takes: "jobs",
		setup: func(*flag.FlagSet) run {
			return ofJob(func(ctx context.Context, s *session, job *model.Job, _ []string) error {
				st, err := s.client.JobScaling(ctx, job.ID)
				if err != nil {
					return err
				}
				header := []string{"Task Group", "Count", "PrevCount", "Error", "Message", "Date"}
				if s.verbose {
					header = append(header, "Eval ID", "Meta")
				}
				var rows [][]string
				for _, name := range slices.Sorted(maps.Keys(st.TaskGroups)) {
					for _, e := range st.TaskGroups[name].Events {
						count := ""
						if e.Count != nil {
							count = text(*e.Count)
						}
						row := []string{name, count, text(e.PreviousCount), text(e.Error), e.Message, date(int64(e.Time))}
						if s.verbose {
							var meta []string
							for _, k := range slices.Sorted(maps.Keys(e.Meta)) {
								meta = append(meta, fmt.Sprintf("%s=%v", k, e.Meta[k]))
							}
							row = append(row, e.EvalID, strings.Join(meta, ","))
						}
						rows = append(rows, row)
					}
				}
				s.tableOr("No events", header, rows)
				return nil
			})
		},
	}
}
