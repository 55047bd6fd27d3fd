// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginrun

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/pluginhost/driver"
)

// logs returns the tails of a task without output, and a function that adds output.
func logs(t *testing.T, watch func(Event)) (*tails, func(text string)) {
	dir := t.TempDir()
	all := newTails(driver.LogConfig{StdoutPath: filepath.Join(dir, "t.stdout"), StderrPath: filepath.Join(dir, "t.stderr")}, watch)
	return all, func(text string) {
		f, err := os.OpenFile(filepath.Join(dir, "t.stdout.0"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
}

func TestOutputThatComesAfterTheTasksEndIsReported(t *testing.T) {
	var got []string
	all, add := logs(t, func(e Event) { got = append(got, e.Text) })
	synctest.Test(t, func(t *testing.T) {
		add("first\n")
		go func() {
			for _, text := range []string{"second\n", "third\n", "last"} {
				time.Sleep(quiet / 2)
				add(text)
			}
		}()
		all.end()
		if want := []string{"first", "second", "third", "last"}; !slices.Equal(got, want) {
			t.Errorf("%q was reported, want %q", got, want)
		}
	})
}

func TestATaskWhoseChildWritesOnIsNotWaitedForWithoutEnd(t *testing.T) {
	all, add := logs(t, func(Event) {})
	synctest.Test(t, func(t *testing.T) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for tick := time.Tick(readEvery / 2); ; {
				select {
				case <-tick:
					add("on\n")
				case <-stop:
					return
				}
			}
		}()
		begin := time.Now()
		all.end()
		if took := time.Since(begin); took > patience+readEvery {
			t.Errorf("its output was awaited for %s", took)
		}
		close(stop)
		<-stopped
	})
}
