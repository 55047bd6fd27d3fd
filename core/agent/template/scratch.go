// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Scratch is a place where one run of a template keeps values by name.
type Scratch struct {
	run    *execution
	values map[string]any
}

func (e *execution) scratchpad() *Scratch {
	if e.scratch == nil {
		e.scratch = &Scratch{run: e, values: map[string]any{}}
	}
	return e.scratch
}

// String names the keys, so that printing it ends.
func (s *Scratch) String() string { return fmt.Sprint(slices.Sorted(maps.Keys(s.values))) }

// Key reports whether there is a value.
func (s *Scratch) Key(k string) bool { return s.values[k] != nil }

// Get returns a value, or nil.
func (s *Scratch) Get(k string) any { return s.values[k] }

// Set keeps a value and prints nothing.
func (s *Scratch) Set(k string, v any) (string, error) {
	if err := s.fits(v); err != nil {
		return "", err
	}
	s.values[k] = v
	return "", nil
}

// SetX keeps a value if there is none.
func (s *Scratch) SetX(k string, v any) (string, error) {
	if _, has := s.values[k]; has {
		return "", nil
	}
	return s.Set(k, v)
}

// MapSet keeps a value in a map of the scratch.
func (s *Scratch) MapSet(k, mk string, v any) (string, error) { return s.mapSet(k, mk, v, true) }

// MapSetX stores a value in a map of the scratch unless the map has the key.
func (s *Scratch) MapSetX(k, mk string, v any) (string, error) { return s.mapSet(k, mk, v, false) }

// MapValues returns the values of a map of the scratch in the order of their names.
func (s *Scratch) MapValues(k string) ([]any, error) {
	m, err := s.inner(k)
	if err != nil {
		return nil, err
	}
	out := make([]any, 0, len(m))
	for _, mk := range slices.Sorted(maps.Keys(m)) {
		out = append(out, m[mk])
	}
	return out, s.fits(out)
}

func (s *Scratch) mapSet(k, mk string, v any, override bool) (string, error) {
	m, err := s.inner(k)
	if err != nil {
		return "", err
	}
	if _, has := m[mk]; has && !override {
		return "", nil
	}
	if err := s.fits(v); err != nil {
		return "", err
	}
	m[mk] = v
	s.values[k] = m
	return "", nil
}

func (s *Scratch) inner(k string) (map[string]any, error) {
	if s.values[k] == nil {
		return map[string]any{}, nil
	}
	m, ok := s.values[k].(map[string]any)
	if !ok {
		return nil, errdefs.InvalidArgumentf("scratch: the value %q is not a map", k)
	}
	return m, nil
}

// fits counts a call: templates call these methods directly, so the checks of functions do
// not count them.
func (s *Scratch) fits(v any) error {
	if err := s.run.step(); err != nil {
		return err
	}
	rv := reflect.ValueOf(v)
	if !rv.IsValid() {
		return nil
	}
	if err := s.run.charge(weight(rv)); err != nil {
		return err
	}
	return s.run.measure(rv)
}
