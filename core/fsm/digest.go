// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/drover-project/drover/core/state"
)

// Digest returns a digest of everything in a view, "sha256:HEX". Servers that have applied
// the same log up to the same index have equal digests there, whether they have applied
// the entries or restored a snapshot of them. It costs as much as writing a snapshot
// without a disk.
func Digest(ctx context.Context, view *state.View) (string, error) {
	hash := sha256.New()
	if err := (&snapshot{view: view}).WriteTo(ctx, hash); err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}
