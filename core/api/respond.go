// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// statusError is an error with an explicit status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

func fail(status int, text string) error { return &statusError{status: status, text: text} }

var errMethod = fail(http.StatusMethodNotAllowed, "Invalid method")

// statusOf returns the HTTP status for an error.
func statusOf(err error) int {
	var coded *statusError
	if errors.As(err, &coded) {
		return coded.status
	}
	var tooBig *http.MaxBytesError
	if errors.As(err, &tooBig) {
		return http.StatusRequestEntityTooLarge
	}
	switch errdefs.ClassOf(err) {
	case errdefs.NotFound:
		return http.StatusNotFound
	case errdefs.InvalidArgument:
		return http.StatusBadRequest
	case errdefs.PermissionDenied:
		return http.StatusForbidden
	case errdefs.ResourceExhausted:
		return http.StatusTooManyRequests
	case errdefs.Unimplemented:
		return http.StatusNotImplemented
	}
	return http.StatusInternalServerError
}

// ShapeError means that a body is valid JSON but of the wrong shape.
type ShapeError struct{ Err error }

// Error returns the text of the cause.
func (e *ShapeError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ShapeError) Unwrap() error { return e.Err }

// plain500 converts a backend error as the reference does on this route: status 500
// for all classes except PermissionDenied, and ResourceExhausted that says when to retry.
func plain500(v any, err error) (any, error) {
	if err == nil || errdefs.IsPermissionDenied(err) || errdefs.IsResourceExhausted(err) && errdefs.RetryAfter(err) > 0 {
		return v, err
	}
	var shape *ShapeError
	if errors.As(err, &shape) {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	return nil, fail(http.StatusInternalServerError, err.Error())
}

func writeError(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	if status == http.StatusNotFound && text == "" {
		w.WriteHeader(status)
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, shorten(text)) // an error means that the client has gone
}

// shorten removes the middle of an error text longer than errdefs.MaxText: errors quote
// what they refuse, and a request may have megabytes. The beginning or the end of the text
// says what was wrong.
func shorten(text string) string {
	if len(text) <= errdefs.MaxText {
		return text
	}
	const half = errdefs.MaxText / 2
	left := fmt.Sprintf(" ... (%d bytes are left out) ... ", len(text)-2*half)
	return strings.ToValidUTF8(text[:half], "") + left + strings.ToValidUTF8(text[len(text)-half:], "")
}

// answer writes the result of a route.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, v any, err error) {
	switch {
	case err != nil:
		status := statusOf(err)
		if status >= http.StatusInternalServerError {
			s.log.Debug("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		}
		if wait := errdefs.RetryAfter(err); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		}
		writeError(w, status, err.Error())
	case v == nil:
	default:
		s.writeJSON(w, r, v)
	}
}

// done is the result of handlers that wrote their answer themselves.
var done any

func (s *Server) writeJSON(w http.ResponseWriter, r *http.Request, v any) {
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= maxKeptBuffer {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	body, err := encodeInto(buf, v, pretty(r))
	if err != nil {
		s.log.Error("an answer cannot be encoded; this is a defect of drover", "path", r.URL.Path, "error", err)
		writeError(w, http.StatusInternalServerError, "cannot encode the answer: "+err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body) // an error means that the client has gone
}

func pretty(r *http.Request) bool {
	v, ok := r.URL.Query()["pretty"]
	return ok && (len(v) == 0 || v[0] != "false")
}

// buffers are reused, because a list of 1,000 allocs is about 3 MB of JSON.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const maxKeptBuffer = 8 << 20

func encodeJSON(v any, indent bool) ([]byte, error) { return encodeInto(new(bytes.Buffer), v, indent) }

// encodeInto encodes v into the empty buffer and returns its bytes.
func encodeInto(buf *bytes.Buffer, v any, indent bool) ([]byte, error) {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "    ")
	}
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(buf.Bytes(), "\n"), nil
}

func setIndex(w http.ResponseWriter, index uint64) {
	w.Header().Set("X-Nomad-Index", strconv.FormatUint(index, 10))
}

func setReadMeta(w http.ResponseWriter, index uint64, m ReadMeta) {
	setIndex(w, index)
	w.Header().Set("X-Nomad-KnownLeader", strconv.FormatBool(m.KnownLeader))
	w.Header().Set("X-Nomad-LastContact", strconv.FormatInt(m.LastContactMS, 10))
}

// orEmpty returns a list that is encoded as [] instead of null if it is empty.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func boolParam(r *http.Request, name string) (bool, error) {
	v := paramsOf(r).get(name)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fail(http.StatusBadRequest, "Failed to parse value of \""+name+"\" ("+v+") as a bool: "+err.Error())
	}
	return b, nil
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}
