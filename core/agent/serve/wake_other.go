// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package serve

import (
	"context"
	"os"
	"time"

	"github.com/drover-project/drover/core/sleep"
)

// waker only sleeps on this system: followers read a file at intervals.
type waker struct{}

func newWaker() *waker { return &waker{} }

func (*waker) add(*os.File)  {}
func (*waker) drop(*os.File) {}
func (*waker) close()        {}

func (*waker) sleep(ctx context.Context, d time.Duration) error { return sleep.For(ctx, d) }
