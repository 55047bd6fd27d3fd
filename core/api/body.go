// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of request bodies.
const (
	// bodyTimeout is the time limit of a body that is kept in memory. Any body fails
	// if no data arrives for half of that time.
	bodyTimeout = time.Minute
	// bodiesInFlight limits the bytes of all bodies in memory, not counting the first
	// smallBody of each, so that small requests are served even if large ones use the
	// whole limit.
	bodiesInFlight = 128 << 20
	smallBody      = 64 << 10
	// lingering is how long the server waits for the rest of a body that it does not
	// read.
	lingering = 5 * time.Second
)

// Limits of a JSON body: more than any job needs, and less than the log and its
// readers can hold.
const (
	maxJSONDepth   = 128
	maxJSONObjects = 100_000 // objects and arrays
	maxJSONValues  = 2_000_000
)

// body is the body of a request. Reading it fails if the client is too slow.
type body struct {
	io.ReadCloser
	conn    *http.ResponseController
	timeout time.Duration
	held    *atomic.Int64 // bytes of all bodies in memory
	end     time.Time     // deadline of a body that is kept in memory
	read    int64
	took    int64       // this body's share of held
	over    atomic.Bool // the whole body was read, or no more of it can be read
	left    atomic.Bool // the request has ended, which a forwarding goroutine may not know yet
}

type bodyKey struct{}

// timed sets deadlines for bodies. Requests without a body, which include streams and
// websockets, have none.
func (s *Server) timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body == nil || r.Body == http.NoBody {
			next.ServeHTTP(w, r)
			return
		}
		b := &body{ReadCloser: r.Body, conn: http.NewResponseController(w), timeout: cmp.Or(s.cfg.BodyTimeout, bodyTimeout), held: &s.bodies}
		b.readUntil(time.Now().Add(b.timeout)) // the server itself reads what a handler leaves
		defer b.leave()
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
		r.Body = b
		next.ServeHTTP(w, r)
	})
}

// inMemory marks the body of a request as kept in memory, so that its size counts.
func inMemory(r *http.Request) {
	if b, ok := r.Context().Value(bodyKey{}).(*body); ok && b.end.IsZero() {
		b.end = time.Now().Add(b.timeout)
	}
}

// Read reads available data, or fails if nothing arrives in time.
func (b *body) Read(p []byte) (int, error) {
	if b.left.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	at := time.Now().Add(b.timeout / 2)
	if !b.end.IsZero() && b.end.Before(at) {
		at = b.end
	}
	b.readUntil(at)
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.over.Store(true)
	}
	if errors.Is(err, io.EOF) {
		b.readUntil(time.Time{}) // no deadline while the connection is watched for a disconnect
	}
	b.read += int64(n)
	if err == nil || errors.Is(err, io.EOF) {
		if full := b.count(); full != nil {
			return n, full
		}
	}
	return n, err
}

// readUntil sets the read deadline of the connection. Connections in tests may not
// support deadlines.
func (b *body) readUntil(at time.Time) { _ = b.conn.SetReadDeadline(at) }

// count adds the read bytes of a body in memory to the total.
func (b *body) count() error {
	more := b.read - smallBody - b.took
	if b.end.IsZero() || more <= 0 {
		return nil
	}
	b.took += more
	if b.held.Add(more) > bodiesInFlight {
		return errdefs.ResourceExhaustedf("this agent reads %d MiB of requests at this moment, and not more; try again", bodiesInFlight>>20)
	}
	return nil
}

// leave subtracts the body from the total, and limits how long the server waits for
// unread data.
func (b *body) leave() {
	b.held.Add(-b.took)
	b.left.Store(true)
	if !b.over.Load() {
		b.readUntil(time.Now().Add(lingering))
	}
}

// decodeBody decodes the JSON body into v. An empty body is an error unless optional.
// A field that v does not have is an error if it makes the write conditional;
// otherwise it is named in the warnings of the answer.
func decodeBody(r *http.Request, v any, optional bool) error {
	inMemory(r)
	text, err := io.ReadAll(r.Body)
	if err == nil {
		err = tooMuch(text)
	}
	if err == nil {
		err = decodeOne(text, v)
	}
	if err == nil {
		err = model.NoNulls("", v)
	}
	switch {
	case err == nil:
		return noteUnread(r, text, v)
	case optional && errors.Is(err, io.EOF):
		return nil
	}
	if err = bodyError(err); statusOf(err) != http.StatusInternalServerError {
		return err
	}
	return fail(http.StatusBadRequest, err.Error())
}

// bodyError gives errors of reading a body their status.
func bodyError(err error) error {
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		return fail(http.StatusRequestEntityTooLarge, "request body is larger than "+strconv.FormatInt(tooBig.Limit>>20, 10)+" MiB; send less")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fail(http.StatusRequestTimeout, "the request body did not arrive in time; send it faster, or less")
	}
	return err
}

// tooMuch rejects JSON that is nested too deeply or has too many values, before it is
// decoded: two bytes of JSON can become an object of a hundred bytes.
func tooMuch(body []byte) error {
	depth, objects, values, quoted, escaped := 0, 0, 0, false, false
	for _, c := range body {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped = c == '\\'
			quoted = c != '"'
		case c == '"':
			quoted = true
		case c == ',':
			values++
		case c == '{' || c == '[':
			objects++
			depth++
		case c == '}' || c == ']':
			depth--
		}
		if depth > maxJSONDepth {
			return fail(http.StatusBadRequest, "the request body is nested more than "+strconv.Itoa(maxJSONDepth)+" levels deep")
		}
		if objects > maxJSONObjects || values > maxJSONValues {
			return fail(http.StatusRequestEntityTooLarge, "the request body holds more than "+strconv.Itoa(maxJSONObjects)+" objects and lists, or "+strconv.Itoa(maxJSONValues)+" values")
		}
	}
	return nil
}
