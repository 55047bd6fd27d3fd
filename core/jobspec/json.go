// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// ParseJSON parses a job document: {"Job": {...}} or the job itself. Durations may be
// text such as "30s" or nanoseconds.
func ParseJSON(src []byte) (*Draft, error) {
	if len(src) > maxFileBytes {
		return nil, errdefs.InvalidArgumentf("the job document has %d bytes; at most %d are read", len(src), maxFileBytes)
	}
	if n := bytes.Count(src, []byte("{")); n > maxObjects && countObjects(src) > maxObjects {
		return nil, errdefs.InvalidArgumentf("the job document has more than %d objects", maxObjects)
	}
	if err := model.CheckUTF8(src); err != nil {
		return nil, fmt.Errorf("the job document %w", err)
	}
	var envelope struct{ Job json.RawMessage }
	if err := decodeJSON(src, &envelope, ""); err != nil {
		return nil, err
	}
	body := src
	if len(envelope.Job) > 0 && !bytes.Equal(envelope.Job, []byte("null")) {
		body = envelope.Job
	}
	draft := &Draft{}
	if err := decodeJSON(body, draft, "Job"); err != nil {
		return nil, err
	}
	if err := model.NoNulls("Job", draft); err != nil {
		return nil, err
	}
	return draft, nil
}

// UnreadJSON returns the names of the fields of a job document that a job does not
// have, and which have no effect.
func UnreadJSON(src []byte) []string {
	var envelope struct{ Job json.RawMessage }
	if json.Unmarshal(src, &envelope) == nil && len(envelope.Job) > 0 && !bytes.Equal(envelope.Job, []byte("null")) {
		src = envelope.Job
	}
	return slices.DeleteFunc(model.UnreadFields(src, reflect.TypeFor[Draft]()), isDerived)
}

var derived = regexp.MustCompile(`\bServices\[\d+\]\.Namespace$`)

// isDerived reports whether answers add the field, such as the namespace of a service,
// which follows from its job.
func isDerived(field string) bool { return derived.MatchString(field) }

// countObjects counts the objects of a document, which may be invalid.
func countObjects(src []byte) (n int) {
	text, escaped := false, false
	for _, c := range src {
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = c == '\\', c != '"'
		case c == '"':
			text = true
		case c == '{':
			n++
		}
	}
	return n
}

// ParseJSONFile is ParseJSON for a file: errors have its name, line and column.
func ParseJSONFile(src []byte, filename string) (*Draft, error) {
	draft, err := ParseJSON(src)
	if err == nil {
		draft.origin = parseJSONPlaces(src, filename)
	}
	return draft, err
}

// decodeJSON decodes exactly one document, which errors call name.
func decodeJSON(src []byte, into any, name string) error {
	dec := json.NewDecoder(bytes.NewReader(src))
	if err := dec.Decode(into); err != nil {
		return errdefs.New(errdefs.InvalidArgument, model.WrongType(err, src, into, name))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errdefs.InvalidArgumentf("the job document is followed by more text; send one document")
	}
	return nil
}
