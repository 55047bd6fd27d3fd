// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/drover-project/drover/core/model"
)

// streamPatience is how long a client of a stream may read nothing.
const streamPatience = 30 * time.Second

// stream writes frames to a client: as consecutive JSON objects, or only their data.
type stream struct {
	ctx     context.Context // context of the client's request
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

func (s *stream) frame(f *model.StreamFrame) error {
	s.start()
	data := f.Data
	if !s.plain {
		var err error
		if data, err = json.Marshal(f); err != nil {
			return err
		}
	}
	// A client that reads nothing for this long is considered gone.
	_ = s.ctl.SetWriteDeadline(time.Now().Add(streamPatience)) // if deadlines are not supported, the end of the connection ends the stream
	if len(data) > 0 {
		if _, err := s.w.Write(data); err != nil {
			return err
		}
	}
	return s.flush()
}

// flush sends what was written.
func (s *stream) flush() error {
	if err := s.ctl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

// end ends the stream. After the first frame an error cannot change the status any
// more, so the connection is closed to signal it.
func (s *stream) end(err error) error {
	_ = s.ctl.SetWriteDeadline(time.Time{}) // the connection may serve further requests
	switch {
	case err == nil, s.ctx.Err() != nil:
		s.start()
		return nil
	case !s.started:
		return err
	}
	panic(http.ErrAbortHandler)
}
