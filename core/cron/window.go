// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package cron

import (
	"fmt"
	"strings"
	"time"
)

// Window is the time between the firings of two expressions: it opens when the first fires
// and closes when the second does. It is not safe for concurrent use.
type Window struct{ start, end *Schedule }

// windowMemory is how far back the last opening and the last closing are searched. A window
// that has neither opened nor closed for longer counts as closed.
const windowMemory = 5 * 366 * 24 * time.Hour

// NewWindow returns the window that opens and closes at the times of two expressions, in a
// time zone as New has it. An end of only two fields is a minute and an hour of every day.
// It returns an error for a window that never opens or closes, and for one whose ends are the
// same expression.
func NewWindow(start, end, zone string) (*Window, error) {
	if len(strings.Fields(end)) == 2 {
		end += " * * *"
	}
	w := &Window{}
	for _, x := range []struct {
		name, expression string
		into             **Schedule
	}{{"start", start, &w.start}, {"end", end, &w.end}} {
		s, err := New([]string{x.expression}, zone)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		if s.Next(time.Unix(0, 0)).IsZero() {
			return nil, fmt.Errorf("%s: cron expression %q never fires; there is no such date", x.name, x.expression)
		}
		*x.into = s
	}
	if strings.Join(strings.Fields(start), " ") == strings.Join(strings.Fields(end), " ") {
		return nil, fmt.Errorf("start and end are the same expression %q: the window has no length", start)
	}
	return w, nil
}

// Open reports whether the window is open at a time: its last opening is not before its last
// closing. If clocks skip the whole window, it stays closed.
func (w *Window) Open(at time.Time) bool {
	from := at.Add(-windowMemory)
	opened, closed := w.start.Last(from, at), w.end.Last(from, at)
	if !opened.IsZero() && opened.Equal(closed) { // the clock tells which of them is later where it skips hours
		opened, closed = w.start.named(opened), w.end.named(closed)
	}
	return !opened.IsZero() && !opened.Before(closed)
}

// Next returns the first time after a given one at which the window may open or close; zero
// if there is none.
func (w *Window) Next(after time.Time) time.Time {
	opens, closes := w.start.Next(after), w.end.Next(after)
	if opens.IsZero() || !closes.IsZero() && closes.Before(opens) {
		return closes
	}
	return opens
}
