// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/sdk/errdefs"
)

// scriptTimeout is how long a script may take that does not say.
const scriptTimeout = 5 * time.Second

// runScript runs a template's script inside the running task and adds an event with the
// result. A failed script ends the task only with fail_on_error.
func (r *Runner) runScript(ctx context.Context, name string, run uint64, s *model.ChangeScript) {
	command, err := r.script(name, s)
	code := 0
	var output string
	if err == nil {
		limit := s.Timeout
		if limit <= 0 {
			limit = scriptTimeout
		}
		call, cancel := context.WithTimeout(ctx, limit)
		code, output, err = r.execScript(call, name, run, command)
		if call.Err() != nil && ctx.Err() == nil {
			err = errdefs.DeadlineExceededf("it did not end within %s", limit)
		}
		cancel()
	}
	if ctx.Err() != nil {
		return
	}
	args := fmt.Sprint(s.Args)
	switch {
	case err == nil && code == 0:
		r.note(name, model.TaskEvent{Type: model.TaskHookMessage,
			Message: fmt.Sprintf("Template successfully ran script %v with arguments: %v. Exit code: %d", s.Command, args, code)})
		return
	case err == nil:
		err = fmt.Errorf("exited with code %d; output: %q", code, output)
	}
	why := fmt.Sprintf("Template ran script %v with arguments %v on change but it failed: %v", s.Command, args, err)
	if s.FailOnError {
		r.failByHook(name, why)
		return
	}
	r.note(name, model.TaskEvent{Type: model.TaskHookFailed, Message: why})
}

// script is the command of a script with its ${...} replaced.
func (r *Runner) script(name string, s *model.ChangeScript) ([]string, error) {
	r.mu.Lock()
	a, t := r.alloc, r.tasks[name]
	var rendered template.Vars
	if t.rendering != nil {
		rendered = t.rendering.Env()
	}
	r.mu.Unlock()
	drv, err := r.cfg.Drivers.Driver(t.job.Driver)
	if err != nil {
		return nil, err
	}
	if !drv.Info().Capabilities.Exec {
		return nil, errdefs.Unimplementedf("driver %q cannot run a command in a task", t.job.Driver)
	}
	env := r.environment(a, t.job, drv.Info().Capabilities, rendered)
	out := []string{env.Replace(s.Command)}
	for _, arg := range s.Args {
		out = append(out, env.Replace(arg))
	}
	return out, nil
}

func (r *Runner) execScript(ctx context.Context, name string, run uint64, command []string) (int, string, error) {
	drv, err := r.driverOf(name)
	if err != nil {
		return 0, "", err
	}
	out := &head{limit: 1024}
	res, err := drv.ExecTask(ctx, taskID(r.id, name, run), driver.ExecOptions{Command: command}, driver.ExecStream{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: out,
	})
	if err == nil && res.Signal != 0 {
		err = fmt.Errorf("ended by signal %d", res.Signal)
	}
	return res.ExitCode, out.text(), err
}

// head is a writer that keeps the beginning of a command's output.
type head struct {
	limit int
	mu    sync.Mutex
	kept  []byte
}

// Write takes everything and keeps what fits.
func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.kept = append(h.kept, p[:min(len(p), h.limit-len(h.kept))]...)
	return len(p), nil
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.TrimSpace(string(h.kept))
}
