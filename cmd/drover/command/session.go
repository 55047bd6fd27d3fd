// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"time"
	"unicode"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
)

// session is one run of a command.
type session struct {
	IO
	*common
	client *client.Client
	colour bool
	// redraws reports whether the output is a terminal that can move its cursor; TERM=dumb says
	// that it cannot, as in editors and logs of other systems.
	redraws bool
}

func newSession(c *common, stdio IO, sp spec) (*session, error) {
	s := &session{IO: stdio, common: c}
	set := func(names ...string) bool {
		for _, n := range names {
			if stdio.Env[n] != "" {
				return true
			}
		}
		return false
	}
	s.redraws = stdio.Terminal && stdio.Env["TERM"] != "dumb"
	s.colour = s.redraws && !set("NO_COLOR", "DROVER_CLI_NO_COLOR", "NOMAD_CLI_NO_COLOR")
	s.colour = (s.colour || set("DROVER_CLI_FORCE_COLOR", "NOMAD_CLI_FORCE_COLOR")) && !c.noColor || c.forceColor
	if sp.offline {
		return s, nil
	}
	var err error
	c.cfg.Warn = s.warnOnce()
	s.client, err = client.New(c.cfg)
	return s, err
}

// warnOnce returns a function that prints a warning of the agent, but each warning
// only once per run.
func (s *session) warnOnce() func(text string) {
	said := map[string]bool{}
	var mu sync.Mutex
	return func(text string) {
		mu.Lock()
		defer mu.Unlock()
		if !said[text] {
			said[text] = true
			fmt.Fprintf(s.Err, "Warning: %s\n", visible(text))
		}
	}
}

// output remembers the first error of writing, so that a command whose output is lost, as on a
// full disk, does not say that it succeeded.
type output struct {
	io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// underlying returns what an output writes to, for who needs the file itself.
func underlying(w io.Writer) io.Writer {
	if o, ok := w.(*output); ok {
		return o.Writer
	}
	return w
}

func (s *session) printf(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// title prints a section heading.
func (s *session) title(format string, args ...any) {
	s.printf("%s", s.paint("1", fmt.Sprintf(format, args...)))
}

// step prints a line of a monitor.
func (s *session) step(format string, args ...any) {
	s.printf("==> %s: %s", time.Now().Format(time.RFC3339), fmt.Sprintf(format, args...))
}

// paint colours text with an ANSI code.
func (s *session) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// id shortens an id unless -verbose was given.
func (s *session) id(id string) string {
	if s.verbose || len(id) <= 8 {
		return id
	}
	return id[:8]
}

// visible escapes control characters, such as a newline in a job's id, as Go does in quoted
// strings, so that a row of a table stays on one line.
func visible(text string) string {
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRune(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// table prints aligned rows under a header.
func (s *session) table(header []string, rows [][]string) {
	lines := [][]string{header}
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, cell := range r {
			cells[i] = cmp.Or(strings.TrimSpace(visible(cell)), "<none>")
		}
		lines = append(lines, cells)
	}
	s.printf("%s", align(lines, "  "))
}

// tableOr prints a table, or the sentence none if there are no rows.
func (s *session) tableOr(none string, header []string, rows [][]string) {
	if len(rows) == 0 {
		s.printf("%s", none)
		return
	}
	s.table(header, rows)
}

// pairs prints aligned names and values.
func (s *session) pairs(kv ...string) {
	var lines [][]string
	for i := 0; i+1 < len(kv); i += 2 {
		lines = append(lines, []string{kv[i], "= " + cmp.Or(strings.TrimSpace(visible(kv[i+1])), "<none>")})
	}
	s.printf("%s", align(lines, " "))
}

// mapPairs prints a map, sorted by key.
func (s *session) mapPairs(m map[string]string) {
	var kv []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		kv = append(kv, k, m[k])
	}
	s.pairs(kv...)
}

// formatted prints v in the format that -json or -t requests. It reports false if
// neither was given.
func (s *session) formatted(v any) (bool, error) {
	switch {
	case s.template != "" && s.json:
		return true, errors.New("give either -json or -t")
	case s.template != "":
		t, err := template.New("").Parse(s.template)
		if err != nil {
			return true, fmt.Errorf("the template of -t is not valid: %w", err)
		}
		if err := t.Execute(s.Out, v); err != nil {
			return true, fmt.Errorf("cannot execute the template of -t: %w", err)
		}
		s.printf("")
		return true, nil
	case s.json:
		return true, s.printJSON(v)
	}
	return false, nil
}

// show prints v in the format that -json or -t requests; without these flags it
// calls print.
func (s *session) show(v any, err error, print func()) error {
	if err != nil {
		return err
	}
	done, err := s.formatted(v)
	if !done {
		print()
	}
	return err
}

func (s *session) printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "    ")
	if err != nil {
		return fmt.Errorf("cannot encode the answer as JSON: %w", err)
	}
	s.printf("%s", b)
	return nil
}

// warn prints the warnings of an answer to standard error.
func (s *session) warn(text string) {
	if text != "" {
		fmt.Fprintln(s.Err, s.paint("33", "Job Warnings:\n"+text)+"\n")
	}
}

// warnOfDoors prints to standard error which ports of the agent are open to
// everybody. It prints nothing if the agent cannot be asked.
func (s *session) warnOfDoors(ctx context.Context) {
	self, err := s.client.AgentSelf(ctx)
	if err != nil {
		return
	}
	doors := self.Stats[api.StatsDoors]
	for _, name := range slices.Sorted(maps.Keys(doors)) {
		fmt.Fprintln(s.Err, s.paint("33", "Warning: "+doors[name]))
	}
}

// confirm asks a yes-or-no question, unless -yes was given. It reports whether to
// continue.
func (s *session) confirm(yes bool, format string, args ...any) (bool, error) {
	if yes {
		return true, nil
	}
	question := fmt.Sprintf(format, args...)
	if !s.InTerminal {
		return false, fmt.Errorf("%s Standard input is not a terminal: answer with -yes", question)
	}
	fmt.Fprintf(s.Out, "%s [y/N] ", question)
	line, err := bufio.NewReader(s.In).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer == "y" || answer == "yes" {
		return true, nil
	}
	if err != nil {
		s.printf("")
	}
	s.printf("Cancelled; nothing was changed")
	return false, nil
}

// ago formats the time since a time in Unix nanoseconds.
func ago(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	return duration(time.Since(time.Unix(0, ns))) + " ago"
}

// duration formats the two largest units of d.
func duration(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	units := []struct {
		name string
		size time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	out := ""
	for i, u := range units {
		if n := d / u.size; n > 0 {
			out = fmt.Sprintf("%d%s", n, u.name)
			if i+1 < len(units) {
				if rest := (d % u.size) / units[i+1].size; rest > 0 {
					out += fmt.Sprintf("%d%s", rest, units[i+1].name)
				}
			}
			return out
		}
	}
	return "0s"
}

func date(ns int64) string {
	if ns <= 0 {
		return "N/A"
	}
	return time.Unix(0, ns).Format(time.RFC3339)
}

// when formats a time; the zero time is N/A.
func when(t time.Time) string {
	if t.IsZero() {
		return "N/A"
	}
	return t.Format(time.RFC3339)
}

// upcoming formats a time in the future and how far away it is.
func upcoming(t time.Time) string {
	return fmt.Sprintf("%s (%s from now)", when(t.Local()), duration(time.Until(t)))
}

// text formats numbers and booleans for tables.
func text[T int | int32 | int64 | uint64 | bool | uint16](v T) string {
	switch v := any(v).(type) {
	case bool:
		return strconv.FormatBool(v)
	case uint64:
		return strconv.FormatUint(v, 10)
	}
	return fmt.Sprint(v)
}
