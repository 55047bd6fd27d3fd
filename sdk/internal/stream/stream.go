// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stream carries the channels that plugins report on over gRPC streams.
// It owns the header by which a host tells a stream that was refused from one
// that has no news yet. The contracts of the sdk import it.
package stream

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/drover-project/drover/sdk/errdefs"
)

// openKey is in the header of a stream that the plugin has opened.
const openKey = "drover-stream"

// Serve sends what a plugin's channel delivers until it is closed. The plugin
// owns the channel, so after a failed send it is drained until then.
func Serve[T, M any](out grpc.ServerStreamingServer[M], open func(context.Context) (<-chan T, error), convert func(T) *M) error {
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	ch, err := open(ctx)
	if err != nil {
		return errdefs.ToGRPC(err)
	}
	err = out.SendHeader(metadata.Pairs(openKey, "open"))
	for v := range ch {
		if err == nil {
			err = out.Send(convert(v))
		}
		if err != nil {
			cancel() // and go on reading until the plugin closes the channel
		}
	}
	return err
}

// Receive waits until the plugin has opened the stream or refused it, and then
// delivers what it sends until it ends.
func Receive[M, T any](ctx context.Context, s grpc.ServerStreamingClient[M], convert func(*M) T) (<-chan T, error) {
	header, err := s.Header()
	if err != nil {
		return nil, errdefs.FromGRPC(err)
	}
	if len(header.Get(openKey)) == 0 {
		_, err := s.Recv()
		if err == nil || errors.Is(err, io.EOF) {
			err = errdefs.Internalf("the plugin opened a stream without the header %q; the plugin is defective", openKey)
		}
		return nil, errdefs.FromGRPC(err)
	}
	out := make(chan T)
	go func() {
		defer close(out)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case out <- convert(m):
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}
