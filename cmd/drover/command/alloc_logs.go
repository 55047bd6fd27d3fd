// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// source holds the flags that select an alloc and a position in its output.
type source struct {
	group        string
	byJob        bool
	follow, tail bool
	lines, bytes int64
}

func (o *source) declare(fs *flag.FlagSet) {
	o.declareAlloc(fs)
	fs.BoolVar(&o.follow, "f", false, "Keeps printing new output until interrupted.")
	fs.BoolVar(&o.tail, "tail", false, "Shows only the end of the output.")
	fs.Int64Var(&o.lines, "n", -1, "With -tail: number of lines, 10 by default.")
	fs.Int64Var(&o.bytes, "c", -1, "With -tail: number of bytes.")
}

func (o *source) declareAlloc(fs *flag.FlagSet) {
	fs.BoolVar(&o.byJob, "job", false, "Treats the argument as a job and uses one of its running allocations.")
	fs.StringVar(&o.group, "group", "", "With -job: the group of the allocation.")
}

// alloc resolves the command's argument to an alloc.
func (o *source) alloc(ctx context.Context, s *session, arg, task string) (*model.Allocation, error) {
	if o.byJob {
		job, err := s.findJob(ctx, arg)
		if err != nil {
			return nil, err
		}
		if arg, err = s.someAlloc(ctx, job.ID, o.group, task, false); err != nil {
			return nil, err
		}
	}
	a, err := s.findAlloc(ctx, arg)
	if err != nil {
		return nil, err
	}
	s.client = s.client.WithNamespace(a.Namespace)
	return a.Allocation, nil
}

// allocWithTask returns the alloc of an argument. If no task was named, task becomes the
// only one of the alloc.
func (o *source) allocWithTask(ctx context.Context, s *session, arg string, task *string) (*model.Allocation, error) {
	a, err := o.alloc(ctx, s, arg, *task)
	if err == nil && *task == "" {
		*task, err = onlyTask(a)
	}
	return a, err
}

// someAlloc returns an alloc of a job that has the group and the task; an empty
// string matches any. It prefers a running alloc. If none runs, it fails if running
// is true and otherwise returns any alloc.
func (s *session) someAlloc(ctx context.Context, jobID, group, task string, running bool) (string, error) {
	list, _, err := s.client.JobAllocations(ctx, jobID, false, nil)
	if err != nil {
		return "", err
	}
	list = slices.DeleteFunc(list, func(a *model.AllocListStub) bool {
		_, has := a.TaskStates[task]
		return group != "" && a.TaskGroup != group || task != "" && len(a.TaskStates) > 0 && !has
	})
	var alive []*model.AllocListStub
	for _, a := range list {
		if a.ClientStatus == model.AllocClientStatusRunning {
			alive = append(alive, a)
		}
	}
	if len(alive) == 0 && !running {
		alive = list
	}
	if len(alive) == 0 {
		return "", fmt.Errorf("job %q has no matching allocation; see: drover job allocs %s", jobID, jobID)
	}
	return alive[rand.IntN(len(alive))].ID, nil
}

// reader reads a log or a file from an offset that counts from the start or from the
// end.
type reader func(ctx context.Context, follow bool, origin string, offset int64, each func(*model.StreamFrame) error) error

// maxTail is the number of bytes that are buffered to find the last lines.
const maxTail = 64 << 20

// copy writes the part of the output that the flags select.
func (o *source) copy(ctx context.Context, s *session, read reader, out io.Writer) error {
	write := func(f *model.StreamFrame) error {
		if f.FileEvent != "" {
			fmt.Fprintf(s.Err, "drover: %s: %s\n", f.File, f.FileEvent)
		}
		_, err := out.Write(f.Data)
		return err
	}
	var err error
	switch {
	case o.bytes >= 0:
		err = read(ctx, o.follow, "end", o.bytes, write)
	case o.tail || o.lines >= 0:
		err = o.lastLines(ctx, read, write)
	default:
		err = read(ctx, o.follow, "start", 0, write)
	}
	if o.follow && ctx.Err() != nil {
		return nil // the user ends following with Ctrl-C
	}
	return err
}

// lastLines writes the last lines and, with -f, what follows them.
func (o *source) lastLines(ctx context.Context, read reader, write func(*model.StreamFrame) error) error {
	n := int(o.lines)
	if n < 0 {
		n = 10
	}
	end, err := tailOf(ctx, read, n)
	if err != nil {
		return err
	}
	switch {
	case !o.follow:
		return write(&model.StreamFrame{Data: end})
	case n == 0:
		return read(ctx, true, "end", 0, write)
	}
	// This read starts one byte before the last lines. The file may have grown since the
	// first read, so the data may start within a line: everything up to the first
	// newline is skipped, unless the last lines are the whole file.
	first := true
	return read(ctx, true, "end", int64(len(end))+1, func(f *model.StreamFrame) error {
		if first && len(f.Data) > 0 {
			first = false
			whole := bytes.HasPrefix(f.Data, end[:min(len(end), len(f.Data))]) // the file starts here
			if i := bytes.IndexByte(f.Data, '\n'); i >= 0 && !whole {
				f.Data = f.Data[i+1:]
			}
		}
		return write(f)
	})
}

// tailOf returns the last n lines. It reads larger and larger tails until there are
// enough lines.
func tailOf(ctx context.Context, read reader, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	for size := int64(n)*128 + 1024; ; size *= 4 {
		size = min(size, maxTail)
		var data []byte
		err := read(ctx, false, "end", size, func(f *model.StreamFrame) error {
			data = append(data, f.Data...)
			if len(data) > 2*maxTail {
				return errors.New("the file grows faster than its end can be found; try again without -tail")
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if start, ok := startOfLines(data, n); ok || int64(len(data)) < size || size == maxTail {
			return data[start:], nil
		}
	}
}

// startOfLines returns the offset at which the last n lines begin, and whether there
// are n lines.
func startOfLines(data []byte, n int) (int, bool) {
	for i := len(data) - 2; i >= 0; i-- {
		if data[i] == '\n' {
			if n--; n == 0 {
				return i + 1, true
			}
		}
	}
	return 0, false
}

func allocLogs() spec {
	return spec{
		usage: "alloc logs [options] <allocation> [<task>]", synopsis: "Prints the output of a task", min: 1, max: 2, takes: "allocs",
		help: "Prints the task's standard output. With -f the task's standard error is printed too, on standard error.",
		setup: func(fs *flag.FlagSet) run {
			o := &source{}
			o.declare(fs)
			stderr := fs.Bool("stderr", false, "Prints only standard error.")
			stdout := fs.Bool("stdout", false, "Prints only standard output.")
			task := fs.String("task", "", "The task, if the allocation has several.")
			return func(ctx context.Context, s *session, args []string) error {
				if len(args) == 2 {
					*task = args[1]
				}
				a, err := o.allocWithTask(ctx, s, args[0], task)
				if err != nil {
					return err
				}
				if !*stderr && !*stdout {
					*stdout, *stderr = true, o.follow
				}
				both, ctx := errgroup.WithContext(ctx)
				for kind, out := range map[string]io.Writer{"stdout": s.Out, "stderr": s.Err} {
					if kind == "stdout" && !*stdout || kind == "stderr" && !*stderr {
						continue
					}
					if *stderr && !*stdout {
						out = s.Out // a single stream was requested, so it goes to stdout for pipes
					}
					both.Go(func() error { return o.copy(ctx, s, s.logReader(a.ID, *task, kind), out) })
				}
				return both.Wait()
			}
		},
	}
}

func (s *session) logReader(allocID, task, kind string) reader {
	return func(ctx context.Context, follow bool, origin string, offset int64, each func(*model.StreamFrame) error) error {
		return s.client.StreamLogs(ctx, &api.LogStreamRequest{AllocID: allocID, Task: task, Type: kind, Follow: follow, Origin: origin, Offset: offset}, each)
	}
}

// onlyTask returns the alloc's task if it has only one.
func onlyTask(a *model.Allocation) (string, error) {
	names := slices.Sorted(maps.Keys(a.TaskStates))
	if a.Job != nil {
		if g := a.Job.LookupTaskGroup(a.TaskGroup); g != nil {
			names = nil
			for _, t := range g.Tasks {
				names = append(names, t.Name)
			}
		}
	}
	if len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("allocation %s has several tasks (%v); name one with -task", a.ID, names)
}
