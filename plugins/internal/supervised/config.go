// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervised

import "sync"

// Config holds the agent config of a driver, which SetConfig replaces while the driver
// works. The zero value has the zero config.
type Config[C any] struct {
	mu      sync.Mutex
	current C
	// changed is closed and replaced when the config changes; nil before the first use.
	changed chan struct{}
}

// Set replaces the config.
func (c *Config[C]) Set(config C) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = config
	if c.changed != nil {
		close(c.changed)
	}
	c.changed = make(chan struct{})
}

// Get returns the config, which must not be changed, and a channel that is closed when
// another one replaces it.
func (c *Config[C]) Get() (C, <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changed == nil {
		c.changed = make(chan struct{})
	}
	return c.current, c.changed
}
