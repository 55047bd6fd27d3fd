// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable

import "github.com/dgraph-io/badger/v4"

// PassTime does what happens when a store's timer ends twice, and reports whether the store
// rests then.
func (d *DB) PassTime() bool {
	for range 2 {
		if d.rests { // fixed when the store was opened, so it is read without the lock
			d.rest()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.badger == nil
}

// Unread is unread on the open database.
func (d *DB) Unread(files []string) error {
	return d.use(func(db *badger.DB) error { return unread(db, d.opts, files) })
}
