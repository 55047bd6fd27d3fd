// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
)

// source are the flags that pick an alloc and a place in its output.
type source struct {
	job, group       string
	byJob            bool
	follow, tail     bool
	lines, bytes     int64
	linesSet, cutSet bool
}

func (o *source) declare(fs *flag.FlagSet) {
	fs.BoolVar(&o.byJob, "job", false, "The argument is a job; one of its allocations is used.")
	fs.StringVar(&o.group, "group", "", "With -job: the group of the allocation.")
	fs.BoolVar(&o.follow, "f", false, "Goes on as more is written.")
	fs.BoolVar(&o.tail, "tail", false, "Shows the end.")
	fs.Int64Var(&o.lines, "n", -1, "With -tail: number of lines.")
	fs.Int64Var(&o.bytes, "c", -1, "With -tail: number of bytes.")
}

// alloc finds the alloc that the arguments mean.
func (o *source) alloc(ctx context.Context, s *session, arg string) (*client.AllocDetail, error) {
	if !o.byJob {
		return s.findAlloc(ctx, arg)
	}
	job, err := s.findJob(ctx, arg)
	if err != nil {
		return nil, err
	}
	list, _, err := s.client.JobAllocations(ctx, job.ID, false, nil)
	if err != nil {
		return nil, err
	}
	var running, others []string
	for _, a := range list {
		switch {
		case o.group != "" && a.TaskGroup != o.group:
		case a.ClientStatus == model.AllocClientStatusRunning:
			running = append(running, a.ID)
		default:
			others = append(others, a.ID)
		}
	}
	if len(running) == 0 {
		running = others
	}
	if len(running) == 0 {
		return nil, fmt.Errorf("job %q has no allocation to read from", job.ID)
	}
	a, _, err := s.client.Allocation(ctx, running[rand.IntN(len(running))], nil)
	return a, err
}

// position is where to start reading.
func (o *source) position() (origin string, offset int64) {
	switch {
	case o.bytes >= 0:
		return "end", o.bytes
	case o.tail || o.lines >= 0:
		n := o.lines
		if n < 0 {
			n = 10
		}
		return "end", n * 120
	}
	return "start", 0
}

// writer cuts the first piece to the number of lines that was asked for.
func (o *source) writer(out io.Writer) io.Writer {
	if o.bytes >= 0 || !o.tail && o.lines < 0 {
		return out
	}
	n := o.lines
	if n < 0 {
		n = 10
	}
	return &lastLines{out: out, n: int(n)}
}

// lastLines passes on the last n lines of the first write, then all.
type lastLines struct {
	out  io.Writer
	n    int
	done bool
}

func (l *lastLines) Write(p []byte) (int, error) {
	if l.done {
		return l.out.Write(p)
	}
	l.done = true
	start, left := 0, l.n
	for i := len(p) - 2; i >= 0; i-- {
		if p[i] == '\n' {
			if left--; left == 0 {
				start = i + 1
				break
			}
		}
	}
	if _, err := l.out.Write(p[start:]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func allocLogs() spec {
	return spec{
		usage: "alloc logs [options] <allocation> [<task>]", synopsis: "Prints what a task has written", min: 1, max: 2,
		setup: func(fs *flag.FlagSet) run {
			o := &source{}
			o.declare(fs)
			stderr := fs.Bool("stderr", false, "Prints the standard error.")
			_ = fs.Bool("stdout", false, "Prints the standard output. The default.")
			task := fs.String("task", "", "The task.")
			return func(ctx context.Context, s *session, args []string) error {
				a, err := o.alloc(ctx, s, args[0])
				if err != nil {
					return err
				}
				if len(args) == 2 {
					*task = args[1]
				}
				if *task == "" {
					if *task, err = onlyTask(a.Allocation); err != nil {
						return err
					}
				}
				req := &api.LogStreamRequest{AllocID: a.ID, Task: *task, Type: "stdout", Follow: o.follow}
				if *stderr {
					req.Type = "stderr"
				}
				req.Origin, req.Offset = o.position()
				return streamTo(o.writer(s.Out), func(each func(*api.StreamFrame) error) error { return s.client.StreamLogs(ctx, req, each) })
			}
		},
	}
}

func streamTo(out io.Writer, stream func(func(*api.StreamFrame) error) error) error {
	return stream(func(f *api.StreamFrame) error {
		_, err := out.Write(f.Data)
		return err
	})
}

// onlyTask is the task of an alloc that has one.
func onlyTask(a *model.Allocation) (string, error) {
	if a.Job != nil {
		if g := a.Job.LookupTaskGroup(a.TaskGroup); g != nil && len(g.Tasks) == 1 {
			return g.Tasks[0].Name, nil
		}
	}
	if names := sortedKeys(a.TaskStates); len(names) == 1 {
		return names[0], nil
	}
	return "", fmt.Errorf("allocation %s has several tasks (%v); name one", a.ID, sortedKeys(a.TaskStates))
}

func allocFS() spec {
	return spec{
		usage: "alloc fs [options] <allocation> [<path>]", synopsis: "Lists a folder of an allocation or prints a file", min: 1, max: 2,
		setup: func(fs *flag.FlagSet) run {
			o := &source{}
			o.declare(fs)
			stat := fs.Bool("stat", false, "Describes the file instead of printing it.")
			return func(ctx context.Context, s *session, args []string) error {
				a, err := o.alloc(ctx, s, args[0])
				if err != nil {
					return err
				}
				path := "/"
				if len(args) == 2 {
					path = args[1]
				}
				info, err := s.client.StatFile(ctx, a.ID, path)
				if err != nil {
					return err
				}
				switch {
				case *stat:
					s.fileTable([]*api.AllocFileInfo{info})
					return nil
				case info.IsDir:
					list, err := s.client.ListFiles(ctx, a.ID, path)
					if err != nil {
						return err
					}
					s.fileTable(list)
					return nil
				}
				req := &api.FileStreamRequest{AllocID: a.ID, Path: path, Follow: o.follow}
				req.Origin, req.Offset = o.position()
				if !o.follow && req.Origin == "start" {
					return s.printFile(ctx, a.ID, path)
				}
				return streamTo(o.writer(s.Out), func(each func(*api.StreamFrame) error) error { return s.client.StreamFile(ctx, req, each) })
			}
		},
	}
}

func (s *session) printFile(ctx context.Context, allocID, path string) error {
	body, err := s.client.ReadFile(ctx, allocID, path, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(s.Out, body)
	return err
}

func (s *session) fileTable(list []*api.AllocFileInfo) {
	var rows [][]string
	for _, f := range list {
		name := f.Name
		if f.IsDir {
			name += "/"
		}
		rows = append(rows, []string{f.FileMode, strconv.FormatInt(f.Size, 10), date(f.ModTime.UnixNano()), name})
	}
	s.table([]string{"Mode", "Size", "Modified Time", "Name"}, rows)
}
