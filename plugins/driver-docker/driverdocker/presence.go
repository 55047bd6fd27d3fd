// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"os"
	"path/filepath"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

// presence tells the processes of this node's driver from each other. While one
// is upgraded there are two, and the old one may go on for minutes with a call
// that it has begun; it does not know the tasks that the new one starts.
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
	if _, err := tryLock(f, false); err != nil { // not now means that another one looks; see alone
		_ = f.Close() // nothing was written
		return nil, errdefs.FailedPreconditionf("lock the file by which the docker driver's processes detect each other: %w", err)
	}
	return p, nil
}

// alone reports whether no other process of this driver runs here. The lock is
// held alone for a moment only. Whoever comes in that moment shows at the next
// look.
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
