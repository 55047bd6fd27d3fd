// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// presence detects other processes of this node's driver. During an upgrade there
// are two: the old one may run for minutes because of a call in progress, and it
// does not know the tasks that the new one starts.
type presence struct {
	mu sync.Mutex
	f  *os.File
}

func openPresence(dir string) (*presence, error) {
	f, err := os.OpenFile(filepath.Join(dir, "processes"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("open the file by which the docker driver's processes detect each other: %w", err)
	}
	p := &presence{f: f}
	if _, err := tryLock(f, false); err != nil { // a failure means that another process is just checking, see alone
		_ = f.Close() // the file was not written
		return nil, errdefs.FailedPreconditionf("lock the file by which the docker driver's processes detect each other: %w", err)
	}
	return p, nil
}

// alone reports whether this is the only process of the driver. It holds the lock
// exclusively for a moment only. A process that starts at that moment is noticed by
// the next check.
func (p *presence) alone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	only, err := tryLock(p.f, true)
	_, again := tryLock(p.f, false)
	return only && err == nil && again == nil
}

func (p *presence) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.f.Close()
}
