// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
)

// source is a Source in memory whose answers a test sets.
type source struct {
	mu      sync.Mutex
	answers map[template.Query]template.Answer
	err     error
	hang    bool
	index   uint64
	changed chan struct{}
	fetches int
	open    int
}

func newSource() *source {
	return &source{answers: map[template.Query]template.Answer{}, changed: make(chan struct{})}
}

func (s *source) Fetch(ctx context.Context, q template.Query, opts template.FetchOptions) (template.Answer, error) {
	s.mu.Lock()
	s.fetches++
	s.open++
	s.mu.Unlock()
	defer func() { s.mu.Lock(); s.open--; s.mu.Unlock() }()
	timer := time.NewTimer(opts.Wait)
	defer timer.Stop()
	for {
		s.mu.Lock()
		a, err, hang, changed := s.answers[q], s.err, s.hang, s.changed
		s.mu.Unlock()
		if err != nil && !hang {
			return a, err
		}
		if a.Index == 0 {
			a.Index = 1
		}
		if a.Index > opts.Since && !hang {
			return a, nil
		}
		select {
		case <-ctx.Done():
			return a, ctx.Err()
		case <-changed:
		case <-timer.C:
			if !hang {
				return a, nil
			}
		}
	}
}

func (s *source) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

// put writes a variable; a nil map removes it.
func (s *source) put(path string, items map[string]string) {
	s.do(func() {
		s.index += 10
		s.answers[template.Query{Kind: template.KindVariable, Name: path}] = template.Answer{
			Index: s.index + 1, Found: items != nil, Variable: template.Variable{Meta: template.VariableMeta{Path: path}, Items: items},
		}
	})
}

func (s *source) answer(q template.Query, a template.Answer) {
	s.do(func() { s.index += 10; a.Index = s.index + 1; s.answers[q] = a })
}

// counts tells how often the source was asked, and how many calls are open.
func (s *source) counts() (fetches, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fetches, s.open
}

func (s *source) fail(err error) { s.do(func() { s.err = err }) }

// world is a task with its directories.
type world struct {
	t    *testing.T
	cfg  template.Config
	task template.Task
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{t: t, task: template.Task{
		TaskDir: filepath.Join(dir, "web"), AllocDir: filepath.Join(dir, "alloc"), UID: -1, GID: -1,
		Env: map[string]string{"NAME": "web", "EMPTY": "", "NOMAD_TASK_DIR": "/local", "NOMAD_META_x": "y"},
	}}
	for _, d := range []string{"web/local", "web/secrets", "alloc/data"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func tmpl(data string) *model.Template {
	return &model.Template{EmbeddedTmpl: data, DestPath: "local/out", ChangeMode: "restart", Perms: "0644", LeftDelim: "{{", RightDelim: "}}"}
}

func (w *world) add(data string, change func(*model.Template)) *model.Template {
	t := tmpl(data)
	if change != nil {
		change(t)
	}
	w.task.Templates = append(w.task.Templates, t)
	return t
}

func (w *world) open() *template.Runner {
	w.t.Helper()
	r, err := template.New(w.cfg).Open(w.t.Context(), w.task)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// render makes one template and returns its file.
func (w *world) render(data string) (string, error) {
	w.t.Helper()
	task := w.task
	task.Templates = []*model.Template{tmpl(data)}
	r, err := template.New(w.cfg).Open(w.t.Context(), task)
	if err != nil {
		return "", err
	}
	defer r.Close()
	if err := r.First(w.t.Context()); err != nil {
		return "", err
	}
	return w.read("local/out"), nil
}

func (w *world) read(rel string) string {
	w.t.Helper()
	raw, err := os.ReadFile(filepath.Join(w.task.TaskDir, rel))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(raw)
}

// write puts a file in its place at once.
func (w *world) write(rel, text string) {
	w.t.Helper()
	temp := filepath.Join(w.t.TempDir(), "new")
	if err := os.WriteFile(temp, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(temp, filepath.Join(w.task.TaskDir, rel)); err != nil {
		w.t.Fatal(err)
	}
}
