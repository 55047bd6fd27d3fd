// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package cron owns the times at which periodic jobs are launched: it reads
// cron expressions and says when one fires next in a time zone, daylight saving
// included. It is pure and knows nothing of jobs. core/model (validation),
// core/control/periodic and core/endpoint import it; it alone imports cronexpr.
//
// An expression has five fields (minute, hour, day of month, month, day of
// week), six with a year behind them, seven with seconds before them, or is one
// of @yearly, @annually, @monthly, @weekly, @daily and @hourly.
//
// When clocks are set forward, what was to fire in the hour that does not exist
// fires once, at its end. When clocks are set back, what names an hour fires in
// the first of the two; what fires in every hour ("*/15 * * * *", "@hourly")
// goes on at its interval.
package cron

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // zones of machines that have none installed

	"github.com/hashicorp/cronexpr"
)

// Bounds on what is read: expressions come from users.
const (
	maxLength      = 256 // bytes of an expression
	MaxExpressions = 64  // of one Schedule
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
	// every is whether it fires in every hour: then intervals count, not what clocks show.
	every bool
}

// Parse reads one expression of a Schedule, to say what is wrong with it.
func Parse(expression string) error {
	_, err := parse(expression)
	return err
}

// New returns the Schedule of expressions that fire by the clocks of a zone (an
// IANA name such as "Europe/Berlin"; "" is UTC).
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

// Local is the zone of the machine that asks: servers may differ in it.
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
	expr, err := safely(func() (*cronexpr.Expression, error) { return cronexpr.Parse(expression) })
	if err != nil {
		return nil, err
	}
	return &rule{expr: expr, every: everyHour(fields)}, nil
}

// safely turns a panic of the parser into an error: what it reads is a user's.
func safely[T any](f func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the cron expression cannot be read: %v", r)
		}
	}()
	return f()
}

// everyHour reports whether an expression fires in every hour of a day.
func everyHour(fields []string) bool {
	switch len(fields) {
	case 1:
		return fields[0] == "@hourly"
	case 5, 6:
		return fields[1] == "*" || fields[1] == "*/1"
	case 7:
		return fields[2] == "*" || fields[2] == "*/1"
	}
	return false
}

// Next returns the first time after a given one at which the schedule fires, in
// the schedule's zone and in whole seconds; the zero time if it never does again.
func (s *Schedule) Next(after time.Time) time.Time {
	var first time.Time
	for _, r := range s.rules {
		if t := r.next(after.In(s.zone)); !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Last returns the last time in (after, until] at which the schedule fires; the
// zero time if there is none. It costs the same however often it fires between.
func (s *Schedule) Last(after, until time.Time) time.Time {
	if n := s.Next(after); n.IsZero() || n.After(until) {
		return time.Time{}
	}
	// Next(lo) <= until < Next(hi): the last time is that after the greatest such lo.
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

// Interval returns the shortest time between two of the first launches after a
// given time, 0 if there are fewer than two: how often the schedule fires at most,
// as far as a look ahead of some steps can say.
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
