// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cron owns the launch times of periodic jobs: it parses cron expressions and
// computes when one fires next in a time zone, including daylight saving. It is pure
// and does not know jobs. core/model (validation), core/control/periodic and
// core/endpoint import it; only this package imports cronexpr.
//
// An expression has five fields (minute, hour, day of month, month, day of week), six
// with a year at the end, seven with seconds at the beginning, or is one of @yearly,
// @annually, @monthly, @weekly, @daily and @hourly.
//
// When clocks are set forward, launches in the skipped hour happen once, at its end.
// When clocks are set back, an expression that names an hour fires in the first of the
// two; one that fires in every hour ("*/15 * * * *", "@hourly") continues at its
// interval.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones for machines without a zone database

	"github.com/hashicorp/cronexpr"
)

// Limits of the input, because expressions come from users.
const (
	maxLength      = 256 // bytes of an expression
	MaxExpressions = 64  // in one Schedule
)

// Schedule is one or more cron expressions in a time zone. It is not safe for
// concurrent use.
type Schedule struct {
	rules []*rule
	zone  *time.Location
}

// rule is one expression.
type rule struct {
	expr *cronexpr.Expression
	// every is true if it fires in every hour: it then follows elapsed time instead of
	// the clock.
	every bool
}

// Parse returns an error if an expression is invalid.
func Parse(expression string) error {
	_, err := parse(expression)
	return err
}

// New returns a Schedule of expressions in a time zone (an IANA name such as
// "Europe/Berlin"; "" means UTC).
func New(expressions []string, zone string) (*Schedule, error) {
	if len(expressions) > MaxExpressions {
		return nil, fmt.Errorf("%d cron expressions are too many: at most %d are allowed", len(expressions), MaxExpressions)
	}
	loc, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	s := &Schedule{zone: loc}
	for _, e := range expressions {
		r, err := parse(e)
		if err != nil {
			return nil, err
		}
		s.rules = append(s.rules, r)
	}
	return s, nil
}

// Local is the time zone of the machine, which may differ between servers.
const Local = "Local"

// Zone returns a time zone by its IANA name; "" is UTC.
func Zone(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, fmt.Errorf("time zone %q is unknown: use an IANA name such as Europe/Berlin: %w", name, err)
	}
	return loc, nil
}

func parse(expression string) (*rule, error) {
	if len(expression) > maxLength {
		return nil, fmt.Errorf("a cron expression of %d bytes is too long: at most %d are allowed", len(expression), maxLength)
	}
	fields := strings.Fields(expression)
	if len(fields) > 7 {
		return nil, fmt.Errorf("cron expression %q has %d fields: at most 7 are allowed", expression, len(fields))
	}
	if n := len(fields); n > 0 && n < 5 && !strings.HasPrefix(fields[0], "@") {
		return nil, fmt.Errorf("cron expression %q has %d fields: it needs at least 5, for minute, hour, day of the month, month and day of the week", expression, n)
	}
	expr, err := safely(func() (*cronexpr.Expression, error) { return cronexpr.Parse(expression) })
	if err != nil {
		return nil, err
	}
	return &rule{expr: expr, every: everyHour(fields)}, nil
}

// safely converts a panic of the parser to an error, since its input comes from users.
func safely[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the cron expression cannot be read: %v", r)
		}
	}()
	return f()
}

// everyHour reports whether an expression fires in every hour of a day, however its field of
// hours says so: "*", "*/1", "0-23".
func everyHour(fields []string) bool {
	hours := ""
	switch len(fields) {
	case 1:
		return fields[0] == "@hourly"
	case 5, 6:
		hours = fields[1]
	case 7:
		hours = fields[2]
	}
	daily, err := safely(func() (*cronexpr.Expression, error) { return cronexpr.Parse("0 " + hours + " * * *") })
	if err != nil {
		return false
	}
	midnight := time.Date(2001, time.January, 1, 0, 0, 0, 0, time.UTC)
	return daily.NextN(midnight.Add(-time.Second), 24)[23].Before(midnight.Add(24 * time.Hour))
}

// Next returns the first time after a given one at which the schedule fires, in the
// schedule's zone and in whole seconds, or the zero time if it never fires again.
func (s *Schedule) Next(after time.Time) time.Time {
	var first time.Time
	for _, r := range s.rules {
		if t := r.next(after.In(s.zone)); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Last returns the last time in (after, until] at which the schedule fires, or the
// zero time if there is none. Its cost does not depend on the number of times in
// between.
func (s *Schedule) Last(after, until time.Time) time.Time {
	if n := s.Next(after); n.IsZero() || n.After(until) {
		return time.Time{}
	}
	// Invariant: Next(lo) <= until < Next(hi). The result is Next of the greatest such
	// lo.
	lo, hi := after, until
	for hi.Sub(lo) > time.Second {
		mid := lo.Add(hi.Sub(lo) / 2)
		if n := s.Next(mid); n.IsZero() || n.After(until) {
			hi = mid
		} else {
			lo = mid
		}
	}
	last := s.Next(lo)
	for n := s.Next(last); !n.IsZero() && !n.After(until); n = s.Next(n) {
		last = n
	}
	return last
}

// Interval returns the shortest interval between some of the first launches after a
// given time, 0 if there are fewer than two.
func (s *Schedule) Interval(after time.Time) time.Duration {
	const look = 32
	shortest := time.Duration(0)
	t := s.Next(after)
	for range look {
		n := s.Next(t)
		if t.IsZero() || n.IsZero() {
			break
		}
		if d := n.Sub(t); shortest == 0 || d < shortest {
			shortest = d
		}
		t = n
	}
	return shortest
}
