// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// watched starts a world with a source, without the waits of the defaults.
func watched(t *testing.T) (*world, *source) {
	w, s := newWorld(t), newSource()
	w.cfg.Source = s
	w.cfg.Wait = &template.Bounds{}
	return w, s
}

func (w *world) first(r *template.Runner) {
	w.t.Helper()
	if err := r.First(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// change waits for a change for up to d, of the bubble's clock.
func (w *world) change(r *template.Runner, d time.Duration) (template.Change, bool) {
	w.t.Helper()
	select {
	case c := <-r.Changes():
		return c, true
	case <-time.After(d):
		return template.Change{}, false
	}
}

func TestFirstWaitsForWhatIsMissingAndSaysWhat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ with nomadVar "nomad/jobs/web" }}{{ .user }}:{{ .pw }}{{ end }}`, nil)
		w.add(`{{ range nomadService "db" }}{{ .Address }}:{{ .Port }}{{ end }}`, func(m *model.Template) { m.DestPath = "secrets/db" })
		r := w.open()
		defer r.Close()
		done := make(chan error, 1)
		go func() { done <- r.First(t.Context()) }()
		synctest.Wait()
		if got := r.Waiting(); !slices.Equal(got, []string{"nomad.var.block(nomad/jobs/web)"}) {
			t.Errorf("waits for %q", got)
		}
		time.Sleep(time.Hour)
		select {
		case err := <-done:
			t.Fatalf("ended: %v", err)
		default:
		}
		s.put("nomad/jobs/web", map[string]string{"user": "u", "pw": "p"})
		if err := <-done; err != nil || w.read("local/out") != "u:p" || w.read("secrets/db") != "" || len(r.Waiting()) > 0 {
			t.Errorf("%v, %q, waits for %q", err, w.read("local/out"), r.Waiting())
		}
	})
}

func TestFirstEndsWithItsContextAndCanBeCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		r := w.open()
		defer r.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := r.First(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "nomad.var.block(a)") {
			t.Errorf("%v", err)
		}
		s.put("a", map[string]string{"x": "1"})
		w.first(r)
	})
}

func TestAMissingVariableIsAnErrorIfTheTemplateAsksForThat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.ErrMissingKey = true })
		r := w.open()
		if err := r.First(t.Context()); !errdefs.IsNotFound(err) {
			t.Errorf("%v", err)
		}
		r.Close()
		s.put("a", map[string]string{"y": "1"})
		r = w.open()
		if err := r.First(t.Context()); !errdefs.IsInvalidArgument(err) {
			t.Errorf("a missing key: %v", err)
		}
		r.Close()
	})
}

func TestAChangeOfDataIsTold(t *testing.T) {
	for mode, want := range map[string]template.Change{
		"restart": {Mode: "restart"},
		"signal":  {Mode: "signal", Signal: "SIGHUP", Signals: []string{"SIGHUP"}},
		"script":  {Mode: "script"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := watched(t)
			m := w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) {
				m.ChangeMode, m.ChangeSignal, m.ChangeScript = mode, "SIGHUP", &model.ChangeScript{Command: "/bin/x"}
			})
			s.put("a", map[string]string{"x": "1"})
			r := w.open()
			defer r.Close()
			w.first(r)
			if c, ok := w.change(r, time.Hour); ok {
				t.Errorf("%s: told %+v without a change", mode, c)
			}
			s.put("a", map[string]string{"x": "1"}) // newer, but the same
			if c, ok := w.change(r, time.Hour); ok {
				t.Errorf("%s: told %+v for the same bytes", mode, c)
			}
			s.put("a", map[string]string{"x": "2"})
			c, ok := w.change(r, time.Minute)
			if !ok || c.Mode != want.Mode || c.Signal != want.Signal || !slices.Equal(c.Signals, want.Signals) || w.read("local/out") != "2" {
				t.Errorf("%s: %+v %v, file %q", mode, c, ok, w.read("local/out"))
			}
			if mode == "script" && (len(c.Scripts) != 1 || c.Scripts[0] != m.ChangeScript) {
				t.Errorf("scripts %v", c.Scripts)
			}
		})
	}
}

func TestNoopAndOnceTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.ChangeMode = "noop" })
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.Once, m.DestPath = true, "local/once" })
		s.put("a", map[string]string{"x": "1"})
		r := w.open()
		defer r.Close()
		w.first(r)
		s.put("a", map[string]string{"x": "2"})
		if c, ok := w.change(r, time.Hour); ok {
			t.Errorf("told %+v", c)
		}
		if w.read("local/out") != "2" || w.read("local/once") != "1" {
			t.Errorf("%q %q", w.read("local/out"), w.read("local/once"))
		}
	})
}

func TestChangesThatNobodyTakesAreJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		for i, sig := range []string{"SIGHUP", "SIGUSR1", "SIGHUP"} {
			w.add(fmt.Sprintf(`{{ (nomadVar "v%d").x }}`, i), func(m *model.Template) {
				m.ChangeMode, m.ChangeSignal, m.DestPath = "signal", sig, fmt.Sprint("local/", i)
			})
		}
		w.add(`A={{ (nomadVar "env").x }}`, func(m *model.Template) { m.Envvars, m.DestPath = true, "secrets/env" })
		for _, v := range []string{"v0", "v1", "v2", "env"} {
			s.put(v, map[string]string{"x": "1"})
		}
		r := w.open()
		defer r.Close()
		w.first(r)
		if r.Env().Secret["A"] != "1" {
			t.Errorf("env %v", r.Env())
		}
		for _, v := range []string{"v0", "v1", "v2"} {
			s.put(v, map[string]string{"x": "2"})
			synctest.Wait()
		}
		c, _ := w.change(r, time.Minute)
		if c.Mode != "signal" || !slices.Equal(c.Signals, []string{"SIGHUP", "SIGUSR1"}) || c.EnvChanged || len(c.Files) != 3 {
			t.Errorf("%+v", c)
		}
		s.put("v0", map[string]string{"x": "3"})
		synctest.Wait()
		s.put("env", map[string]string{"x": "2"})
		synctest.Wait()
		c, _ = w.change(r, time.Minute)
		if c.Mode != "restart" || len(c.Signals) != 0 || !c.EnvChanged || r.Env().Secret["A"] != "2" {
			t.Errorf("a restart is all that is needed: %+v, env %v", c, r.Env())
		}
	})
}

func TestSplayDelaysAChangeByAtMostItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.Splay = time.Hour })
		s.put("a", map[string]string{"x": "0"})
		r := w.open()
		defer r.Close()
		w.first(r)
		late := 0
		for i := range 5 {
			s.put("a", map[string]string{"x": fmt.Sprint(i + 1)})
			at := time.Now()
			if _, ok := w.change(r, time.Hour); !ok {
				t.Fatal("not told within its splay")
			}
			if time.Since(at) > time.Second {
				late++
			}
		}
		if late == 0 {
			t.Error("told at once, five times")
		}
	})
}

func TestWaitHoldsUntilInputsAreQuietButNotForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		least, most := 10*time.Second, 25*time.Second
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.Wait = &model.WaitConfig{Min: &least, Max: &most} })
		s.put("a", map[string]string{"x": "0"})
		r := w.open()
		defer r.Close()
		w.first(r)
		began := time.Now()
		stop := time.After(time.Minute)
		n := 0
		var told []time.Duration
		for tick := time.NewTicker(4 * time.Second); stop != nil; {
			select {
			case <-tick.C:
				n++
				s.put("a", map[string]string{"x": fmt.Sprint(n)})
			case <-r.Changes():
				told = append(told, time.Since(began))
			case <-stop:
				stop = nil
			}
		}
		if len(told) != 2 || told[0] != 29*time.Second {
			t.Errorf("told at %v, want first at 29s: 25s after the first change", told)
		}
		w.change(r, time.Minute)
		began = time.Now()
		s.put("a", map[string]string{"x": "last"})
		if _, ok := w.change(r, time.Minute); !ok || time.Since(began) != 10*time.Second {
			t.Errorf("told after %v, want 10s", time.Since(began))
		}
	})
}

func TestTheFirstChangeAfterAQuietTimeIsRenderedAtOnceUnlessItRestartsTheTask(t *testing.T) {
	quick, bounds := 10*time.Second, &template.Bounds{Min: 5 * time.Second, Max: time.Minute}
	for name, test := range map[string]struct {
		mode   string
		config func(*template.Config)
		wait   *model.WaitConfig
		prompt bool
	}{
		"noop":                     {mode: "noop", prompt: true},
		"signal":                   {mode: "signal", prompt: true},
		"script":                   {mode: "script", prompt: true},
		"restart":                  {mode: "restart"},
		"the default, restart":     {},
		"a wait of its own":        {mode: "noop", wait: &model.WaitConfig{Min: &quick}},
		"a wait of the operator":   {mode: "noop", config: func(c *template.Config) { c.Wait = bounds }},
		"bounds from the operator": {mode: "noop", config: func(c *template.Config) { c.WaitBounds = bounds }},
	} {
		synctest.Test(t, func(t *testing.T) {
			w, s := watched(t)
			w.cfg.Wait = nil
			if test.config != nil {
				test.config(&w.cfg)
			}
			w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) {
				m.ChangeMode, m.ChangeSignal, m.ChangeScript, m.Wait = test.mode, "SIGHUP", &model.ChangeScript{Command: "/bin/x"}, test.wait
			})
			s.put("a", map[string]string{"x": "1"})
			r := w.open()
			defer r.Close()
			w.first(r)
			rendered := func(after time.Duration, want string) {
				t.Helper()
				time.Sleep(after)
				synctest.Wait()
				if got := w.read("local/out"); got != want {
					t.Errorf("%s: %q after %s, want %q", name, got, after, want)
				}
			}
			time.Sleep(time.Hour)
			s.put("a", map[string]string{"x": "2"})
			if !test.prompt {
				rendered(4*time.Second, "1")
				rendered(7*time.Second, "2")
				return
			}
			s.put("a", map[string]string{"x": "3"}) // at the same moment: rendered with the first
			rendered(250*time.Millisecond, "3")
			// What follows waits until the inputs are quiet for five seconds.
			for i := range 4 {
				s.put("a", map[string]string{"x": fmt.Sprint("busy", i)})
				rendered(4*time.Second, "3")
			}
			rendered(2*time.Second, "busy3")
			s.put("a", map[string]string{"x": "4"})
			rendered(2*time.Second, "busy3")
			rendered(4*time.Second, "4")
			time.Sleep(6 * time.Second)
			s.put("a", map[string]string{"x": "5"})
			rendered(250*time.Millisecond, "5")
		})
	}
}

func TestTheNodesBoundsHoldForEveryWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.cfg.WaitBounds = &template.Bounds{Min: 3 * time.Second, Max: 7 * time.Second}
		zero, long := time.Duration(0), time.Hour
		w.add(`{{ (nomadVar "a").x }}`, func(m *model.Template) { m.Wait = &model.WaitConfig{Min: &zero, Max: &zero} })
		w.add(`{{ (nomadVar "b").x }}`, func(m *model.Template) {
			m.Wait, m.DestPath = &model.WaitConfig{Min: &long, Max: &long}, "local/b"
		})
		s.put("a", map[string]string{"x": "0"})
		s.put("b", map[string]string{"x": "0"})
		r := w.open()
		defer r.Close()
		w.first(r)
		for v, want := range map[string]time.Duration{"a": 3 * time.Second, "b": 7 * time.Second} {
			began := time.Now()
			s.put(v, map[string]string{"x": "1"})
			if _, ok := w.change(r, time.Minute); !ok || time.Since(began) != want {
				t.Errorf("%s: told after %v, want %v", v, time.Since(began), want)
			}
		}
	})
}

func TestAFailingSourceNeverEndsWhatIsRendered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		s.put("a", map[string]string{"x": "1"})
		r := w.open()
		defer r.Close()
		w.first(r)
		before, _ := s.counts()
		s.fail(errdefs.Unavailablef("no leader"))
		if c, ok := w.change(r, time.Hour); ok || w.read("local/out") != "1" {
			t.Errorf("told %+v, file %q", c, w.read("local/out"))
		}
		if !errdefs.IsUnavailable(r.LastError()) {
			t.Errorf("last error %v", r.LastError())
		}
		if now, _ := s.counts(); now-before < 50 || now-before > 120 {
			t.Errorf("asked %d times in an hour of errors; want about one a minute", now-before)
		}
		s.do(func() { s.hang = true })
		time.Sleep(time.Hour)
		s.do(func() { s.hang = false })
		s.fail(nil)
		s.put("a", map[string]string{"x": "2"})
		if _, ok := w.change(r, 3*time.Minute); !ok || w.read("local/out") != "2" || r.LastError() != nil {
			t.Errorf("not recovered: %v, file %q", r.LastError(), w.read("local/out"))
		}
	})
}

func TestWhatCannotBeRenderedAnyMoreKeepsTheLastFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").n.Value | parseInt }}`, nil)
		s.put("a", map[string]string{"n": "1"})
		r := w.open()
		defer r.Close()
		w.first(r)
		s.put("a", map[string]string{"n": "x"})
		if c, ok := w.change(r, time.Hour); ok || w.read("local/out") != "1" || !errdefs.IsInvalidArgument(r.LastError()) {
			t.Errorf("told %+v, file %q, %v", c, w.read("local/out"), r.LastError())
		}
		s.put("a", nil)
		if c, ok := w.change(r, time.Hour); ok || w.read("local/out") != "1" || len(r.Waiting()) != 1 {
			t.Errorf("told %+v, file %q, waits for %q", c, w.read("local/out"), r.Waiting())
		}
		s.put("a", map[string]string{"n": "2"})
		if _, ok := w.change(r, time.Minute); !ok || w.read("local/out") != "2" || r.LastError() != nil || len(r.Waiting()) > 0 {
			t.Errorf("not recovered: %v", r.LastError())
		}
	})
}

func TestAFileThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.add(`{{ (nomadVar "a").x }}`, nil)
		s.put("a", map[string]string{"x": "1"})
		r := w.open()
		defer r.Close()
		w.first(r)
		away := w.task.TaskDir + ".away"
		if err := os.Rename(w.task.TaskDir, away); err != nil {
			t.Fatal(err)
		}
		s.put("a", map[string]string{"x": "2"})
		if c, ok := w.change(r, time.Hour); ok || !errdefs.IsNotFound(r.LastError()) {
			t.Errorf("told %+v, %v", c, r.LastError())
		}
		if err := os.Rename(away, w.task.TaskDir); err != nil {
			t.Fatal(err)
		}
		if _, ok := w.change(r, 2*time.Minute); !ok || w.read("local/out") != "2" || r.LastError() != nil {
			t.Errorf("not written: %v", r.LastError())
		}
	})
}

func TestFirstGivesUpAfterItsAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, s := watched(t)
		w.cfg.Retry = &template.RetryConfig{Attempts: 4, Backoff: time.Second, MaxBackoff: time.Minute}
		w.add(`{{ (nomadVar "a").x }}`, nil)
		s.fail(errdefs.PermissionDeniedf("no"))
		r := w.open()
		defer r.Close()
		began := time.Now()
		err := r.First(t.Context())
		if n, _ := s.counts(); !errdefs.IsPermissionDenied(err) || n != 4 || time.Since(began) > 8*time.Second {
			t.Errorf("%v after %v and %d tries", err, time.Since(began), n)
		}
	})
}
