// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"syscall"
	"time"

	getter "github.com/hashicorp/go-getter"

	"github.com/drover-project/drover/sdk/errdefs"
)

// classify gives an error its class: whether the same request can succeed later.
func (j *job) classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if r := j.guard.refusedAny(); r != nil {
		return errdefs.New(errdefs.InvalidArgument, r)
	}
	if errdefs.IsInvalidArgument(err) || errdefs.IsUnavailable(err) {
		return err // already classified
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	late := j.timeout() > 0 && time.Since(j.began) >= j.timeout() // git and hg are killed at the deadline and print no reason
	var sum *getter.ChecksumError
	switch {
	case errors.As(err, &sum):
		return errdefs.InvalidArgumentf("the checksum is wrong: expected %s, got %s; correct the checksum, or find out why the source has changed", hex.EncodeToString(sum.Expected), hex.EncodeToString(sum.Actual))
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), late:
		return errdefs.Unavailablef("the source did not deliver within %s (the %s timeout in artifact of the agent): %w", j.timeout(), j.scheme, err)
	case errors.Is(err, syscall.EFBIG):
		return errdefs.InvalidArgumentf("a file is larger than the limits of artifact in the agent allow: %w", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return errdefs.Unavailablef("the node's disk is full; free space below its data directory: %w", err)
	}
	return errdefs.Unavailablef("%w", err)
}
