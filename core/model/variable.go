// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"regexp"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Limits of a variable.
const (
	MaxVariableBytes = 64 << 10 // names and values of all items in total
	MinLockTTL       = 10 * time.Second
	MaxLockTTL       = 24 * time.Hour
)

// Variable is a stored variable. Its items are encrypted: state and snapshots do not
// contain the key file of a server, without which they cannot be read.
type Variable struct {
	Namespace   string
	Path        string
	KeyID       string // root key that encrypts Data
	Data        []byte // nonce and ciphertext of the items; bound to Namespace and Path
	Lock        *VariableLock
	CreateIndex uint64
	CreateTime  int64 // Unix nanoseconds, like ModifyTime
	ModifyIndex uint64
	ModifyTime  int64
}

// VariableLock is the holder of a variable's lock and its expiry.
type VariableLock struct {
	ID        string
	TTL       time.Duration
	LockDelay time.Duration // after the lock expires without a release, nobody can acquire it for this long
	Deadline  int64         // Unix nanoseconds; renewal extends it
}

// HeldAt reports whether the lock is held at a time.
func (l *VariableLock) HeldAt(now int64) bool { return l != nil && now < l.Deadline }

// DelayedAt reports whether the lock expired without a release and its lock delay has
// not passed.
func (l *VariableLock) DelayedAt(now int64) bool {
	return l != nil && now >= l.Deadline && now < l.Deadline+int64(l.LockDelay)
}

var variablePath = regexp.MustCompile(`^[a-zA-Z0-9-_~/]{1,128}$`)

// ValidateVariablePath returns an error if path is not a valid variable path.
func ValidateVariablePath(path string) error {
	if !variablePath.MatchString(path) {
		return errdefs.InvalidArgumentf("invalid path %q", path)
	}
	parts := strings.Split(path, "/")
	if parts[0] != "nomad" {
		return nil
	}
	if len(parts) == 1 {
		return errdefs.InvalidArgumentf("%q is a reserved top-level directory path, but you may write variables to %q, %q, or below", "nomad", "nomad/jobs", "nomad/job-templates")
	}
	if parts[1] != "jobs" && parts[1] != "job-templates" {
		return errdefs.InvalidArgumentf("only paths at %q or %q and below are valid paths under the top-level %q directory", "nomad/jobs", "nomad/job-templates", "nomad")
	}
	return nil
}

// ValidateVariableItems returns an error if the items are not valid or too large.
func ValidateVariableItems(items map[string]string) error {
	if len(items) == 0 {
		return errdefs.InvalidArgumentf("variable missing required Items object")
	}
	size := 0
	for k, v := range items {
		if k == "" {
			return errdefs.InvalidArgumentf("an item of the variable has no name")
		}
		size += len(k) + len(v)
	}
	if size > MaxVariableBytes {
		return errdefs.InvalidArgumentf("variables are limited to 64KiB in total size")
	}
	return nil
}

// ValidateVariableLock returns an error if the lock's parameters are not valid.
func ValidateVariableLock(l *VariableLock) error {
	switch {
	case l.TTL < MinLockTTL || l.TTL > MaxLockTTL:
		return errdefs.InvalidArgumentf("the TTL of a lock must be between 10 seconds and 24 hours")
	case l.LockDelay < 0 || l.LockDelay > MaxLockTTL:
		return errdefs.InvalidArgumentf("the delay of a lock must be between 0 and 24 hours")
	}
	return nil
}
