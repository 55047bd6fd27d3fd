// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumes_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/sdk/errdefs"
)

// chance draws numbers for several goroutines.
type chance struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (c *chance) n(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.r.IntN(n)
}

func (c *chance) upTo(d time.Duration) time.Duration { return time.Duration(c.n(int(d))) }

// part is a process of a storage plugin: the controller, or the part of a node. Calls for the
// volume follow one another in it, also after a caller has given up, as the contract wants it.
type part struct {
	*world
	lane chan struct{} // capacity 1
}

func (w *world) newPart() *part { return &part{world: w, lane: make(chan struct{}, 1)} }

// call does what a call is for, with a fault or without.
func (p *part) call(ctx context.Context, name string, effect func() error) error {
	select {
	case p.lane <- struct{}{}:
	case <-ctx.Done():
		return errdefs.Abortedf("the call before it has not ended")
	}
	free := func() { <-p.lane }
	fault := ""
	if !p.calm.Load() && p.n(100) < 45 {
		fault = []string{"before", "after", "hangs", "hangs after", "late", "slow"}[p.n(6)]
	}
	p.count(name + " " + fault)
	failure := []error{
		errdefs.Unavailablef("a fault"), errdefs.Abortedf("a fault"), errdefs.Internalf("a fault"), errdefs.FailedPreconditionf("a fault"), errdefs.ResourceExhaustedf("a fault"),
		errdefs.DeadlineExceededf("a fault"),
	}[p.n(6)]
	switch fault {
	case "before":
		free()
		return failure
	case "after":
		_ = effect() // and the answer is lost
		free()
		return failure
	case "hangs", "hangs after":
		if fault == "hangs after" {
			_ = effect()
		}
		<-ctx.Done()
		free()
		return errdefs.DeadlineExceededf("it hangs: %w", ctx.Err())
	case "late": // nobody waits for the answer any more, and the next call waits
		go func() {
			defer free()
			time.Sleep(p.upTo(20 * time.Second))
			_ = effect()
		}()
		return errdefs.DeadlineExceededf("no answer in time")
	case "slow":
		time.Sleep(p.upTo(3 * time.Second))
	}
	defer free()
	return effect()
}

// machine is the storage plugin's part on a node, with what is mounted there.
type machine struct {
	volume.Backend // what is never called
	*part
	id     string
	staged string
	at     map[string]bool // target paths
	away   bool            // its process does not run
	change chan struct{}
}

func (m *machine) Stage(ctx context.Context, r volume.StageRequest) error {
	return m.call(ctx, "stage", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.attached[m.id] {
			return errdefs.FailedPreconditionf("it is not attached to %s", m.id)
		}
		m.staged = r.StagingPath
		return nil
	})
}

func (m *machine) Publish(ctx context.Context, r volume.PublishRequest) error {
	return m.call(ctx, "publish", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.staged == "" || m.staged != r.StagingPath {
			return errdefs.FailedPreconditionf("it is not staged")
		}
		for other := range m.at {
			if other != r.TargetPath {
				m.Errorf("the volume is published at %s and would be at %s", other, r.TargetPath)
			}
		}
		m.at[r.TargetPath] = true
		return nil
	})
}

func (m *machine) Unpublish(ctx context.Context, _, target string) error {
	return m.call(ctx, "unpublish", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.running[target] {
			m.Errorf("the volume is taken from under the tasks of %s", target)
		}
		delete(m.at, target)
		return nil
	})
}

func (m *machine) Unstage(ctx context.Context, _, _ string) error {
	return m.call(ctx, "unstage", func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if len(m.at) > 0 {
			return errdefs.FailedPreconditionf("it is published")
		}
		m.staged = ""
		return nil
	})
}

func (m *machine) Published(context.Context) ([]volume.Publication, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.staged == "" && len(m.at) == 0 {
		return nil, nil
	}
	return []volume.Publication{{ID: "ext", StagingPath: m.staged, TargetPaths: slices.Sorted(maps.Keys(m.at))}}, nil
}

// Volumes implements storage.Plugins.
func (m *machine) Volumes() ([]pluginhost.VolumeFingerprint, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	print := pluginhost.VolumeFingerprint{Name: "disk", Plugin: "csi@disk", Fingerprint: volume.Fingerprint{
		Provider: "disk", Capabilities: []volume.Capability{volume.CanStage, volume.CanAttach, volume.HasController}, Node: &volume.Node{ID: m.id},
	}}
	if m.away {
		print.Problem = "the driver is away"
	}
	return []pluginhost.VolumeFingerprint{print}, m.change
}

// WithVolume implements storage.Plugins.
func (m *machine) WithVolume(ctx context.Context, _ string, do func(context.Context, volume.Backend) error) error {
	return do(ctx, m)
}

// RunVolume implements storage.Plugins.
func (m *machine) RunVolume(context.Context, pluginhost.VolumeInstance) error { return nil }

// EndVolume implements storage.Plugins.
func (m *machine) EndVolume(context.Context, string, string) error { return nil }

// leaves lets the plugin be away or back.
func (m *machine) leaves(away bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.away = away
	close(m.change)
	m.change = make(chan struct{})
}

// has says what the machine has of the volume; "" if nothing. The lock is held.
func (m *machine) has() string {
	if m.staged == "" && len(m.at) == 0 {
		return ""
	}
	return fmt.Sprintf("staged at %q, published at %v", m.staged, slices.Sorted(maps.Keys(m.at)))
}
