// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stream carries the channels on which plugins report over gRPC streams. It
// owns the header that lets a host distinguish a refused stream from one without data
// yet. The contracts of the sdk import it.
package stream

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/drover-project/drover/sdk/errdefs"
)

// openKey is the header key of a stream that the plugin has accepted.
const openKey = "drover-stream"

// Serve sends what a plugin's channel delivers until the channel is closed, except values
// that convert turns into nil. The plugin owns the channel, so after a failed send Serve
// drains it until it is closed.
func Serve[T, M any](out grpc.ServerStreamingServer[M], open func(context.Context) (<-chan T, error), convert func(T) *M) error {
	ctx, cancel := context.WithCancel(out.Context())
	defer cancel()
	ch, err := open(ctx)
	if err != nil {
		return errdefs.ToGRPC(err)
	}
	err = out.SendHeader(metadata.Pairs(openKey, "open"))
	for v := range ch {
		if m := convert(v); m != nil && err == nil {
			err = out.Send(m)
		}
		if err != nil {
			cancel() // keep reading until the plugin closes the channel
		}
	}
	return err
}

// Receive waits until the plugin has accepted or refused the stream. It then delivers
// the messages of the stream until it ends.
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
