// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/csi/csiplugin"
	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// host plays the node and the servers: it brings volumes to tasks and takes them back, gives
// up, repeats, and has its plugin killed.
type host struct {
	t   *testing.T
	d   *faulty
	dir string // of the plugin

	mu     sync.Mutex
	plugin *csiplugin.Plugin
}

// start runs a process of the plugin. One that ran before has been killed.
func (h *host) start() {
	p := csiplugin.New(h.dir)
	p.Hurry()
	body, err := json.Marshal(map[string]any{
		"endpoint": h.d.socket, "controller": true, "node": true, "call_timeout": "1s", "verify_mounts": true,
	})
	if err == nil {
		err = p.SetConfig(h.t.Context(), body)
	}
	if err != nil {
		h.t.Errorf("configure the plugin: %v", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.plugin != nil {
		h.plugin.Die()
	}
	h.plugin = p
}

func (h *host) now() *csiplugin.Plugin {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.plugin
}

// try makes a call once, with a deadline as short as chance will have it.
func (h *host) try(chance *rand.Rand, do func(context.Context, *csiplugin.Plugin) error) error {
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Duration(1+chance.Intn(150))*time.Millisecond)
	defer cancel()
	return do(ctx, h.now())
}

// until repeats a call until it succeeds.
func (h *host) until(chance *rand.Rand, what string, do func(context.Context, *csiplugin.Plugin) error) bool {
	deadline := time.Now().Add(time.Minute)
	var err error
	for time.Now().Before(deadline) {
		if err = h.try(chance, do); err == nil {
			return true
		}
	}
	h.t.Errorf("%s never succeeded: %v", what, err)
	return false
}

// life is one life of a volume, from Create to Delete, with one or two tasks.
func (h *host) life(chance *rand.Rand, name string) {
	access := volume.Access{Mode: volume.SingleNodeWriter, Attachment: volume.AttachmentFileSystem}
	id := "id-of-" + name
	place := filepath.Join(h.d.dir, name)
	if err := os.MkdirAll(place, 0o700); err != nil {
		h.t.Errorf("%v", err)
		return
	}
	staging, first, second := filepath.Join(place, "staging"), filepath.Join(place, "first"), filepath.Join(place, "second")
	publish := func(path string) func(context.Context, *csiplugin.Plugin) error {
		return func(ctx context.Context, p *csiplugin.Plugin) error {
			return p.Publish(ctx, volume.PublishRequest{ID: id, StagingPath: staging, TargetPath: path, Access: access})
		}
	}
	forth := []func(context.Context, *csiplugin.Plugin) error{
		func(ctx context.Context, p *csiplugin.Plugin) error {
			d, err := p.Create(ctx, volume.CreateRequest{Name: name, Access: []volume.Access{access}})
			if err == nil && d.ID != id {
				err = fmt.Errorf("the plugin passed on the id of another volume, %q", d.ID) // as a host does that knows all ids
			}
			return err
		},
		func(ctx context.Context, p *csiplugin.Plugin) error {
			_, err := p.Attach(ctx, volume.AttachRequest{ID: id, NodeID: "n", Access: access})
			return err
		},
		func(ctx context.Context, p *csiplugin.Plugin) error {
			return p.Stage(ctx, volume.StageRequest{ID: id, StagingPath: staging, Access: access})
		},
		publish(first),
	}
	// Often the host does not get to the end, and goes back from wherever it is.
	for i, step := range forth[:1+chance.Intn(len(forth))] {
		for range 1 + chance.Intn(4) {
			if h.try(chance, step) == nil {
				break
			}
		}
		if i == 3 && chance.Intn(2) == 0 {
			if err := h.try(chance, publish(second)); err == nil && h.recorded(id, first) {
				h.t.Errorf("volume %q was published for a second writer", name)
			}
		}
		if chance.Intn(12) == 0 {
			h.start()
		}
	}
	back := []func(context.Context, *csiplugin.Plugin) error{
		func(ctx context.Context, p *csiplugin.Plugin) error { return p.Unpublish(ctx, id, second) },
		func(ctx context.Context, p *csiplugin.Plugin) error { return p.Unpublish(ctx, id, first) },
		func(ctx context.Context, p *csiplugin.Plugin) error { return p.Unstage(ctx, id, staging) },
	}
	for i, step := range back {
		if !h.until(chance, fmt.Sprintf("step %d back of volume %q", i, name), step) {
			return
		}
	}
}

func (h *host) recorded(id, path string) bool {
	all, err := h.now().Published(h.t.Context())
	if err != nil {
		h.t.Errorf("%v", err)
	}
	for _, p := range all {
		for _, target := range p.TargetPaths {
			if p.ID == id && target == path {
				return true
			}
		}
	}
	return false
}

// end releases everything while the driver is well, and looks what is left.
func (h *host) end(names []string) {
	h.d.mu.Lock()
	h.d.calm = true
	h.d.mu.Unlock()
	chance := rand.New(rand.NewSource(1))
	for _, name := range names {
		id := "id-of-" + name
		h.until(chance, "the last Detach of "+name, func(ctx context.Context, p *csiplugin.Plugin) error {
			return p.Detach(ctx, volume.DetachRequest{ID: id})
		})
		h.until(chance, "the last Delete of "+name, func(ctx context.Context, p *csiplugin.Plugin) error { return p.Delete(ctx, id, nil) })
	}
	left, err := h.now().Published(h.t.Context())
	if err != nil || len(left) > 0 {
		h.t.Errorf("the plugin says that %+v is left, %v", left, err)
	}
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if m := h.d.mounts(); len(m) > 0 {
		h.t.Errorf("mounts are left: %q", m)
	}
	if len(h.d.volumes) > 0 || len(h.d.nodes) > 0 {
		h.t.Errorf("the driver still has the volumes %v, attached %v", h.d.volumes, h.d.nodes)
	}
	for _, w := range h.d.wrong {
		h.t.Errorf("%s", w)
	}
	h.t.Logf("faults: %v", h.d.faults)
}

// TestFaultsOfADriverLeaveNothing runs DROVER_CSI_SEEDS (4) seeds, from DROVER_CSI_SEED (1) on.
func TestFaultsOfADriverLeaveNothing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	for seed := number("DROVER_CSI_SEED", 1); seed < number("DROVER_CSI_SEED", 1)+number("DROVER_CSI_SEEDS", 4); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			h := &host{t: t, d: newFaulty(t, seed), dir: t.TempDir()}
			h.start()
			const volumes, lives = 4, 5
			var names []string
			var all sync.WaitGroup
			for i := range volumes {
				name := fmt.Sprintf("v%d", i)
				names = append(names, name)
				chance := rand.New(rand.NewSource(seed<<8 + int64(i)))
				all.Go(func() {
					for range lives {
						h.life(chance, name)
					}
				})
			}
			all.Wait()
			h.end(names)
		})
	}
}

func number(variable string, otherwise int64) int64 {
	if n, err := strconv.ParseInt(os.Getenv(variable), 10, 64); err == nil {
		return n
	}
	return otherwise
}

// A call that nobody waits for any more still has its turn before the next one.
func TestAReverseCallWaitsForTheLateCallBeforeIt(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	d := newFaulty(t, 1)
	d.calm = true
	h := &host{t: t, d: d, dir: t.TempDir()}
	h.start()
	d.volumes["v"] = "v"
	target := filepath.Join(d.dir, "target")
	access := volume.Access{Mode: volume.SingleNodeWriter}
	d.mu.Lock() // the driver stands still
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := h.plugin.Publish(ctx, volume.PublishRequest{ID: "v", TargetPath: target, Access: access})
	if !errdefs.IsDeadlineExceeded(err) || errdefs.ReasonOf(err) != volume.ReasonPending {
		t.Errorf("Publish: %v, reason %q", err, errdefs.ReasonOf(err))
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := h.plugin.Unpublish(short, "v", target); !errdefs.IsAborted(err) || errdefs.ReasonOf(err) != volume.ReasonPending {
		t.Errorf("Unpublish meanwhile: %v, reason %q", err, errdefs.ReasonOf(err))
	}
	d.mu.Unlock()
	if err := h.plugin.Unpublish(t.Context(), "v", target); err != nil {
		t.Errorf("Unpublish: %v", err)
	}
	if m := d.mounts(); len(m) > 0 {
		t.Errorf("what the late call mounted is left: %q", m)
	}
	if n := h.plugin.Lanes(); n != 0 {
		t.Errorf("%d calls are in progress", n)
	}
}
