// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	texttemplate "text/template"

	"github.com/drover-project/drover/sdk/errdefs"
)

// render runs a template and writes its file if its content has changed. Without an
// error it may still be incomplete: data is then missing.
func (r *Runner) render(ctx context.Context, t *rendered) (changed bool, err error) {
	out, err := r.execute(ctx, t)
	if err != nil || len(t.miss) > 0 {
		return false, err
	}
	sum := sha256.Sum256(out)
	if t.done && sum == t.sum {
		return false, nil
	}
	var env map[string]string
	if t.spec.Envvars {
		if env, err = parseEnv(string(out)); err != nil {
			return false, fmt.Errorf("template %q: %w", t.name, err)
		}
	}
	if r.task.Running && !t.done {
		out, env, changed = r.adopt(t, out, env)
	} else {
		changed = true
	}
	if changed {
		if err := r.files.write(t.at, out, t.mode.mode, t.mode.owner); err != nil {
			return false, err
		}
	}
	t.done, t.sum, t.env = true, sum, env
	r.joinEnv()
	return changed, nil
}

// adopt compares the result with the file with which a running task was started. The
// file is kept if it is equal, or if it can differ only in volatile values such as the
// time: a restart of the agent must not restart the task for that.
func (r *Runner) adopt(t *rendered, out []byte, env map[string]string) ([]byte, map[string]string, bool) {
	if !r.files.differs(t.at, out) {
		return out, env, false
	}
	if t.watches && !t.volatile {
		return out, env, true
	}
	old, _, err := r.files.readAt(t.at, t.spec.DestPath, r.engine.cfg.MaxBytes)
	if err != nil {
		return out, env, true
	}
	if t.spec.Envvars {
		oldEnv, err := parseEnv(string(old))
		if err != nil {
			return out, env, true
		}
		env = oldEnv
	}
	return old, env, false
}

// execute runs a template and records what it read and what is missing.
func (r *Runner) execute(ctx context.Context, t *rendered) ([]byte, error) {
	if err := r.engine.enter(ctx); err != nil {
		return nil, err
	}
	defer r.engine.exit()
	ctx, cancel := context.WithTimeoutCause(ctx, r.engine.cfg.MaxDuration, errTooLong)
	defer cancel()
	run := &execution{ctx: ctx, maxBytes: r.engine.cfg.MaxBytes, maxSteps: r.engine.cfg.MaxSteps, answers: map[Query]known{}, files: map[string]stamp{}}
	t.run = run
	out := &limited{max: run.maxBytes}
	err := t.tmpl.Execute(out, nil)
	t.run = nil
	t.tried, t.seen, t.read, t.miss = true, make(map[Query]uint64, len(run.answers)), run.files, run.missing
	for q, k := range run.answers {
		t.seen[q] = k.version
	}
	if err == nil {
		return out.Bytes(), nil
	}
	// A template may fail because its data is missing; exceeding the limits is an
	// error even then.
	if len(run.missing) > 0 && errdefs.ClassOf(err) != errdefs.ResourceExhausted && ctx.Err() == nil {
		return nil, nil
	}
	t.miss = nil
	var placed texttemplate.ExecError
	if !errors.As(err, &placed) { // an error of the writer
		err = fmt.Errorf("template %q: %w", t.name, err)
	}
	return nil, classedTemplate(err)
}

// classedTemplate keeps the class of an error from a check, and classes others as
// errors of the template.
func classedTemplate(err error) error {
	var class errdefs.Class
	if errors.As(err, &class) || errdefs.ClassOf(err) != errdefs.Internal {
		return err
	}
	return errdefs.New(errdefs.InvalidArgument, err)
}
