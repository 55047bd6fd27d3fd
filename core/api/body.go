// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// decodeBody reads the JSON body into v. An empty body is an error unless optional.
// A field that v does not have is refused where it conditions the write; any other
// is named in the answer's warnings.
func decodeBody(r *http.Request, v any, optional bool) error {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = tooDeep(body)
	}
	if err == nil {
		err = decodeOne(body, v)
	}
	var tooBig *http.MaxBytesError
	switch {
	case err == nil:
		return noteUnread(r, body, v)
	case optional && errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &tooBig):
		return fail(http.StatusRequestEntityTooLarge, "request body is larger than "+strconv.Itoa(maxBodyBytes>>20)+" MiB; send less")
	}
	return fail(http.StatusBadRequest, err.Error())
}

// decodeOne reads one JSON value and refuses what follows it.
func decodeOne(body []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("the request body has more after its JSON value; send one value")
	}
	return nil
}

func noteUnread(r *http.Request, body []byte, v any) error {
	fields := model.UnreadFields(body, reflect.TypeOf(v))
	for _, f := range fields {
		if conditionsBody(f) {
			return fail(http.StatusBadRequest, "the field "+f+" is not known to this request, so nothing was done: leave it out")
		}
	}
	for _, f := range fields {
		note(r, "field "+quoteName(f)+" of the body is not acted on")
	}
	return nil
}

// conditionsBody reports whether a field of a body says what a parameter of the same
// name would: DryRun is dry_run.
func conditionsBody(field string) bool {
	name := field[strings.LastIndex(field, ".")+1:]
	return slices.ContainsFunc(conditions, func(c string) bool {
		return strings.EqualFold(name, strings.NewReplacer("-", "", "_", "").Replace(c))
	})
}

// maxJSONDepth is how deeply objects and lists of a body may be nested: more than
// any job has, and less than what the log and its readers can hold.
const maxJSONDepth = 128

// tooDeep refuses JSON that is nested too deeply, before anything is built of it.
func tooDeep(body []byte) error {
	depth, quoted, escaped := 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			if depth++; depth > maxJSONDepth {
				return fail(http.StatusBadRequest, "the request body is nested more than "+strconv.Itoa(maxJSONDepth)+" levels deep")
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return nil
}
