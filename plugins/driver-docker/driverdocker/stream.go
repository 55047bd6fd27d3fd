// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"path"

	"github.com/moby/moby/client"

	"github.com/drover-project/drover/sdk/errdefs"
)

// A connection that follows a container lives as long as the container, and there is
// one per container. net/http needs two goroutines and about 30 KB per connection;
// this implementation needs one buffer.

// streamBuffer is the size of the read buffer of a connection.
const streamBuffer = 4 << 10

// stream is a streaming response of the daemon.
type stream struct {
	body     io.Reader
	buffered *bufio.Reader // the reader beneath body
	end      func() error
}

func (s *stream) Read(p []byte) (int, error) { return s.body.Read(p) }

func (s *stream) Close() error { return s.end() }

// endOfChunk is the number of bytes that may be buffered after all data of a chunk
// was read.
const endOfChunk = len("\r\n")

// more reports whether data was received that has not been read yet.
func (s *stream) more() bool { return s.buffered.Buffered() > endOfChunk }

// statusError is an error response of the daemon.
type statusError struct {
	code    int
	message string
}

func (e *statusError) Error() string { return "Error response from daemon: " + e.message }

// maxRefusal is the number of bytes read of an error response.
const maxRefusal = 64 << 10

// spoken returns the client after API version negotiation.
func (d *daemon) spoken(ctx context.Context) (*client.Client, error) {
	api := d.api.Load()
	if d.agreed.Load() == api {
		return api, nil
	}
	if _, err := api.Ping(ctx, client.PingOptions{NegotiateAPIVersion: true}); err != nil {
		return nil, err
	}
	d.agreed.Store(api)
	return api, nil
}

// open requests a stream from the daemon. The stream ends when ctx ends, or at
// Close.
func (d *daemon) open(ctx context.Context, resource string, query url.Values) (*stream, error) {
	base, err := client.ParseHostURL(d.endpoint)
	if err != nil {
		return nil, err
	}
	api, err := d.spoken(ctx)
	if err != nil {
		return nil, err
	}
	version := api.ClientVersion()
	if version != "" {
		version = "v" + version
	}
	target := url.URL{Scheme: "http", Host: "docker", Path: path.Join("/", base.Path, version, resource), RawQuery: query.Encode()}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", userAgent)
	conn, err := api.Dialer()(ctx)
	if err != nil {
		return nil, errdefs.Unavailablef("%w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // the reader reports the error
	end := func() error {
		stop()
		return conn.Close()
	}
	buffered := bufio.NewReaderSize(conn, streamBuffer)
	err = request.Write(conn)
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(buffered, nil)
	}
	if err == nil && answer.StatusCode != http.StatusOK {
		err = refusal(answer)
	}
	if err != nil {
		_ = end() // the first error is returned
		return nil, err
	}
	return &stream{body: answer.Body, buffered: buffered, end: end}, nil
}

// refusal reads the daemon's error message.
func refusal(answer *http.Response) error {
	var said struct{ Message string }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxRefusal)).Decode(&said); err != nil || said.Message == "" {
		said.Message = answer.Status
	}
	return &statusError{code: answer.StatusCode, message: said.Message}
}
