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

// progress shows how far something has come: in one line that changes, on a
// terminal; elsewhere in a line for each step, and one now and then in a long step;
// not at all where the output is for programs.
type progress struct {
	out      io.Writer // nil: nothing is shown
	terminal bool

	mu    sync.Mutex
	step  string
	shown time.Time
	open  bool // a line of the terminal that is not ended
}

// progressPause is the time between two lines of one step that are not on a
// terminal, and redrawPause between two looks of one on a terminal.
const (
	progressPause = 5 * time.Second
	redrawPause   = 100 * time.Millisecond
)

func (s *session) newProgress() *progress {
	p := &progress{out: s.Out, terminal: s.Terminal}
	if s.json || s.template != "" {
		p.out = nil
	}
	return p
}

// say shows a step and how much of it is done; a total of 0 is not known.
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
		fmt.Fprintf(p.out, "\r\x1b[K==> %s", line)
		p.open = true
	} else if changed || now.Sub(p.shown) >= progressPause {
		fmt.Fprintf(p.out, "==> %s: %s\n", now.Format(time.RFC3339), line)
	} else {
		return
	}
	p.step, p.shown = step, now
}

// end leaves the terminal's line as it is when the work is over.
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

// counted tells how much has been read of it.
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
