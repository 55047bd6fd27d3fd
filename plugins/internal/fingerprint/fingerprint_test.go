// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fingerprint_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/plugins/internal/fingerprint"
)

// machine is what is looked at.
type machine struct {
	mu      sync.Mutex
	value   int
	changed chan struct{}
	looks   int
}

func (m *machine) look(context.Context) (int, fingerprint.Again) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return m.value, fingerprint.Again{After: time.Minute, Changed: m.changed}
}

// becomes changes the value, and tells it if loud.
func (m *machine) becomes(value int, loud bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value = value
	if loud {
		close(m.changed)
		m.changed = nil
	}
}

func TestWhatHasChangedIsSentWhenItIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := &machine{value: 1, changed: make(chan struct{})}
		got, began := fingerprint.Stream(ctx, m.look), time.Now()
		await := func(value int, after time.Duration, looks int) {
			t.Helper()
			v := <-got
			m.mu.Lock()
			defer m.mu.Unlock()
			if v != value || time.Since(began) != after || m.looks != looks {
				t.Errorf("%d after %s and %d looks, want %d after %s and %d", v, time.Since(began), m.looks, value, after, looks)
			}
		}
		await(1, 0, 1)
		<-time.After(90 * time.Second) // of the fake clock: it was looked at again, and is the same
		m.becomes(2, false)
		await(2, 2*time.Minute, 3)
		synctest.Wait()
		m.becomes(3, true)
		await(3, 2*time.Minute, 4)
		cancel()
		if v, open := <-got; open {
			t.Errorf("after the end %d", v)
		}
	})
}
