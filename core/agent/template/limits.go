// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"reflect"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Bounds of one run of one template, beside MaxBytes, MaxSteps and MaxDuration of Config.
const (
	maxSource     = 1 << 20   // bytes of a template's text
	maxNesting    = 200       // blocks within blocks, in the text
	maxDepth      = 1_000     // calls of named templates within each other
	maxValueDepth = 500       // depth of nested lists and maps
	maxElements   = 1_000_000 // elements of one list that a function makes
	workFactor    = 16        // all values that a run makes have at most this times MaxBytes in sum
	sizeFactor    = 4         // one value has at most this times MaxBytes
	nodeSize      = 16        // bytes that an element of a value counts beside its text
)

// execution is one run of one template.
type execution struct {
	ctx      context.Context
	maxBytes int64
	maxSteps int

	steps int
	depth int
	spent int64

	answers map[Query]known // answers that the run has used
	missing []string
	files   map[string]stamp
	scratch *Scratch
}

// step is called in each turn of each loop and before each function.
func (e *execution) step() error {
	e.steps++
	if e.steps > e.maxSteps {
		return errdefs.ResourceExhaustedf("the template takes more than %d steps; let it loop less", e.maxSteps)
	}
	if e.ctx.Err() == nil {
		return nil
	}
	if err := context.Cause(e.ctx); errors.Is(err, errTooLong) {
		return err
	}
	return fmt.Errorf("the template was stopped: %w", e.ctx.Err())
}

// errTooLong means that the template itself took too long, as opposed to the cancellation
// of its caller.
var errTooLong = errdefs.ResourceExhaustedf("the template takes longer than it may (client.template); let it do less")

func (e *execution) enter() (string, error) {
	if e.depth++; e.depth > maxDepth {
		return "", errdefs.ResourceExhaustedf("named templates call each other more than %d deep; end the recursion earlier", maxDepth)
	}
	return "", e.step()
}

func (e *execution) leave() string {
	e.depth--
	return ""
}

// charge counts the bytes that a function has created.
func (e *execution) charge(n int64) error {
	e.spent += n
	if n > e.maxBytes*sizeFactor || e.spent > e.maxBytes*workFactor {
		return errdefs.ResourceExhaustedf("the template makes values of more than %d bytes in sum; let it make smaller or fewer ones", e.maxBytes*workFactor)
	}
	return nil
}

// room refuses a result that would be longer than the limit of a value.
func (e *execution) room(n int64) error {
	if n < 0 || n > e.maxBytes {
		return errdefs.ResourceExhaustedf("the result would have more than %d bytes; let the template make less", e.maxBytes)
	}
	return nil
}

func elements(n int64) error {
	if n > maxElements {
		return errdefs.ResourceExhaustedf("%d elements; at most %d are made", n, maxElements)
	}
	return nil
}

// measure refuses values that are too large or too deep to be printed or walked. It thereby
// also refuses a value that contains itself.
func (e *execution) measure(v reflect.Value) error {
	left := e.maxBytes * sizeFactor
	return e.measureIn(v, &left, 0)
}

var (
	stringerType = reflect.TypeFor[fmt.Stringer]()
	textType     = reflect.TypeFor[encoding.TextMarshaler]()
	errorType    = reflect.TypeFor[error]()
)

func (e *execution) measureIn(v reflect.Value, left *int64, depth int) error {
	if depth > maxValueDepth {
		return errdefs.InvalidArgumentf("a value is nested more than %d deep or contains itself", maxValueDepth)
	}
	*left -= nodeSize
	if v.Kind() == reflect.String {
		*left -= int64(v.Len())
	}
	if *left < 0 {
		return errdefs.ResourceExhaustedf("a value has more than %d bytes; let the template make smaller ones", e.maxBytes*sizeFactor)
	}
	switch v.Kind() {
	case reflect.Interface:
		return e.measureIn2(v.Elem(), left, depth)
	case reflect.Pointer:
		if printsItself(v.Type()) {
			return nil
		}
		return e.measureIn2(v.Elem(), left, depth)
	case reflect.Slice, reflect.Array:
		return e.measureList(v, left, depth)
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := e.measureIn(it.Key(), left, depth+1); err != nil {
				return err
			}
			if err := e.measureIn(it.Value(), left, depth+1); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if printsItself(v.Type()) && v.Type() != itemType && v.Type() != metaType {
			return nil
		}
		for i := range v.NumField() {
			if err := e.measureIn(v.Field(i), left, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

var (
	itemType = reflect.TypeFor[VariableItem]()
	metaType = reflect.TypeFor[VariableMeta]()
)

// printsItself reports whether values of a type, such as times, have a bounded text of
// their own.
func printsItself(t reflect.Type) bool {
	return t.Implements(stringerType) || t.Implements(textType) || t.Implements(errorType)
}

func (e *execution) measureIn2(v reflect.Value, left *int64, depth int) error {
	if !v.IsValid() {
		return nil
	}
	return e.measureIn(v, left, depth+1)
}

func (e *execution) measureList(v reflect.Value, left *int64, depth int) error {
	switch v.Type().Elem().Kind() {
	case reflect.Uint8, reflect.Bool, reflect.Int8:
		*left -= int64(v.Len())
		return nil
	}
	for i := range v.Len() {
		if err := e.measureIn(v.Index(i), left, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// weight is the cost of a result: the length of a text, the number of elements of a
// container.
func weight(v reflect.Value) int64 {
	for v.Kind() == reflect.Interface && !v.IsNil() {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return int64(v.Len())
		}
		return int64(v.Len()) * nodeSize
	case reflect.Map:
		return int64(v.Len()) * 4 * nodeSize
	}
	return nodeSize
}
