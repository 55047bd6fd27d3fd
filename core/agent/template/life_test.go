// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestManyTasksOnOneKeyOpenOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		s.put("a", map[string]string{"x": "1"})
		e := template.New(w.cfg)
		var all []*template.Runner
		for range 200 {
			r, err := e.Open(t.Context(), w.task)
			if err != nil {
				t.Fatal(err)
			}
			w.first(r)
			all = append(all, r)
		}
		synctest.Wait()
		if asked, open := s.counts(); open != 1 || asked > 3 {
			t.Errorf("%d watches, asked %d times", open, asked)
		}
		other := w.task
		other.Scope = "another job"
		r, err := e.Open(t.Context(), other)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if err := r.First(ctx); err == nil {
			t.Error("an answer passed to another scope")
		}
		cancel()
		for _, r := range append(all, r) {
			r.Close()
			r.Close()
		}
		synctest.Wait()
		if _, open := s.counts(); open != 0 {
			t.Errorf("%d watches are left", open)
		}
	})
}

func TestWhatNeverChangesKeepsNoGoroutine(t *testing.T) {
	w := newWorld(t)
	w.add(`{{ env "NAME" }}{{ timestamp }}`, nil)
	before := runtime.NumGoroutine()
	for range 20 {
		r := w.open()
		w.first(r)
		defer r.Close()
		if r.Changes() != nil {
			t.Fatal("changes of what never changes")
		}
	}
	for end := time.Now().Add(time.Minute); runtime.NumGoroutine() > before; runtime.Gosched() { // one may be about to end
		if time.Now().After(end) {
			t.Fatalf("%d goroutines more", runtime.NumGoroutine()-before)
		}
	}
}

func TestAfterARestartOfTheAgentOnlyWhatChangedIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		w.add(`K={{ (nomadVar "b").x }}`, func(m *model.Template) { m.Envvars, m.DestPath = true, "secrets/env" })
		s.put("a", map[string]string{"x": "1"})
		s.put("b", map[string]string{"x": "1"})
		r := w.open()
		w.first(r)
		r.Close()
		w.task.Running = true
		r = w.open()
		w.first(r)
		if c, ok := w.change(r, time.Minute); ok || r.Env().Secret["K"] != "1" {
			t.Errorf("told %+v, env %v", c, r.Env())
		}
		r.Close()
		s.put("b", map[string]string{"x": "2"})
		r = w.open()
		defer r.Close()
		w.first(r)
		if c, ok := w.change(r, time.Minute); !ok || c.Mode != "restart" || !c.EnvChanged || !slices.Equal(c.Files, []string{"secrets/env"}) {
			t.Errorf("told %+v", c)
		}
	})
}

func TestARestartOfTheAgentIsNoReasonToRenderTheTimeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`T={{ timestamp }}`, func(m *model.Template) { m.Envvars = true })
		w.add(`{{ (nomadVar "a").x }} {{ sprig_uuidv4 }}`, func(m *model.Template) { m.DestPath = "local/id" })
		s.put("a", map[string]string{"x": "1"})
		r := w.open()
		w.first(r)
		r.Close()
		at, id := r.Env().Plain["T"], w.read("local/id")
		time.Sleep(time.Hour)
		w.task.Running = true
		r = w.open()
		defer r.Close()
		w.first(r)
		if c, ok := w.change(r, time.Minute); ok || r.Env().Plain["T"] != at || w.read("local/id") != id {
			t.Errorf("told %+v, T=%s, %s", c, r.Env().Plain["T"], w.read("local/id"))
		}
		s.put("a", map[string]string{"x": "2"})
		if _, ok := w.change(r, time.Minute); !ok || !strings.HasPrefix(w.read("local/id"), "2 ") {
			t.Errorf("%s", w.read("local/id"))
		}
	})
}

func TestAFileThatATemplateReadsIsWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.cfg.Wait = &template.Bounds{}
		w.add(`<{{ file "local/in" }}>`, nil)
		r := w.open()
		defer r.Close()
		done := make(chan error, 1)
		go func() { done <- r.First(t.Context()) }()
		synctest.Wait()
		if got := r.Waiting(); !slices.Equal(got, []string{"file(local/in)"}) {
			t.Errorf("waits for %q", got)
		}
		w.write("local/in", "1")
		if err := <-done; err != nil || w.read("local/out") != "<1>" {
			t.Fatalf("%v %q", err, w.read("local/out"))
		}
		w.write("local/in", "22")
		if _, ok := w.change(r, time.Minute); !ok || w.read("local/out") != "<22>" {
			t.Errorf("file %q", w.read("local/out"))
		}
	})
}

func TestFirstIsOverAtOnceWhereItWasDone(t *testing.T) {
	w, s := watched(t)
	w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.Splay = 0 })
	s.put("a", map[string]string{"x": "1"})
	r := w.open()
	w.first(r)
	s.put("a", map[string]string{"x": "2"})
	if _, ok := w.change(r, 10*time.Second); !ok {
		t.Fatal("no change")
	} // so what follows changes is at work
	done := make(chan error, 1)
	go func() { done <- r.First(t.Context()) }()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it waits for what follows the changes, which never ends")
	}
	r.Close()
	if err := r.First(t.Context()); !errdefs.IsCanceled(err) {
		t.Errorf("after Close: %v", err)
	}
}

func TestClosingEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		r := w.open()
		done := make(chan error, 1)
		go func() { done <- r.First(t.Context()) }()
		synctest.Wait()
		r.Close()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if _, open := <-r.Changes(); open {
			t.Error("a change after Close")
		}
	})
}
