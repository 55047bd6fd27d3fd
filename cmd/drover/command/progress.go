// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
)

// progress shows the progress of an operation. On a terminal that can do so it redraws one line.
// Elsewhere it prints a line for each step, and further lines at intervals during a
// long step. If the output is for programs, it prints nothing.
type progress struct {
	out      io.Writer // nil means that nothing is shown
	terminal bool

	mu    sync.Mutex
	step  string
	shown time.Time
	open  bool // the terminal's cursor is on an unfinished line
}

// progressPause is the time between two lines of the same step if the output is not
// a terminal, redrawPause the time between two redraws on a terminal.
const (
	progressPause = 5 * time.Second
	redrawPause   = 100 * time.Millisecond
)

func (s *session) newProgress() *progress {
	p := &progress{out: s.Out, terminal: s.redraws}
	if s.json || s.template != "" {
		p.out = nil
	}
	return p
}

// say shows a step and how much of it is done; total 0 means unknown.
func (p *progress) say(step string, done, total int64, unit func(int64) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	pause := progressPause
	if p.terminal {
		pause = redrawPause
	}
	if p.out == nil || step == p.step && now.Sub(p.shown) < pause && (done < total || total == 0) {
		return
	}
	line := step
	if total > 0 {
		line += fmt.Sprintf(": %s of %s", unit(done), unit(total))
	} else if done > 0 {
		line += ": " + unit(done)
	}
	changed := step != p.step
	if p.terminal {
		line = "==> " + line
		if size, ok := sizeOf(p.out); ok {
			line = cut([]string{line}, size.Width-1) // a wrapped line would stay when the next is drawn
		}
		fmt.Fprintf(p.out, "\r\x1b[K%s", line)
		p.open = true
	} else if changed || now.Sub(p.shown) >= progressPause {
		fmt.Fprintf(p.out, "==> %s: %s\n", now.Format(time.RFC3339), line)
	} else {
		return
	}
	p.step, p.shown = step, now
}

// end finishes the terminal's line when the operation is over.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open {
		fmt.Fprintln(p.out)
		p.open = false
	}
}

func bytesText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

func countText(n int64) string { return fmt.Sprint(n) }

// counted is a reader that reports how much of it has been read.
type counted struct {
	io.Reader
	n    int64
	tell func(int64)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n += int64(n)
	c.tell(c.n)
	return n, err
}
