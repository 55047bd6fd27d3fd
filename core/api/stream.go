// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// streamPatience is how long a client of a stream may leave it unread.
const streamPatience = 30 * time.Second

// stream writes frames to a client as they come: as JSON objects one after
// another, or their data alone.
type stream struct {
	ctx     context.Context // of the client
	w       http.ResponseWriter
	ctl     *http.ResponseController
	plain   bool
	started bool
}

func newStream(ctx context.Context, w http.ResponseWriter, plain bool) *stream {
	return &stream{ctx: ctx, w: w, ctl: http.NewResponseController(w), plain: plain}
}

func (s *stream) start() {
	if s.started {
		return
	}
	s.started = true
	if s.plain {
		s.w.Header().Set("Content-Type", "text/plain")
	} else {
		s.w.Header().Set("Content-Type", "application/json")
	}
	s.w.WriteHeader(http.StatusOK)
}

func (s *stream) frame(f *StreamFrame) error {
	s.start()
	data := f.Data
	if !s.plain {
		var err error
		if data, err = json.Marshal(f); err != nil {
			return err
		}
	}
	// A client that reads nothing for so long is taken for gone.
	_ = s.ctl.SetWriteDeadline(time.Now().Add(streamPatience)) // where there is none the connection's own end ends it
	if len(data) > 0 {
		if _, err := s.w.Write(data); err != nil {
			return err
		}
	}
	return s.flush()
}

// flush sends what is written.
func (s *stream) flush() error {
	if err := s.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end closes the stream. An error after the first frame cannot change the
// status any more: the connection is cut so that the client sees it.
func (s *stream) end(err error) error {
	_ = s.ctl.SetWriteDeadline(time.Time{}) // the connection may serve other requests
	switch {
	case err == nil, s.ctx.Err() != nil:
		s.start()
		return nil
	case !s.started:
		return err
	}
	panic(http.ErrAbortHandler)
}
