// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package storage_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/volume"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeHost is a plugin host whose storage plugins are in memory.
type fakeHost struct {
	mu      sync.Mutex
	prints  map[string]*pluginhost.VolumeFingerprint
	plugins map[string]*fakePlugin // they outlive instances, as records and mounts do
	ran     []pluginhost.VolumeInstance
	changed chan struct{}
	// answers is what the fingerprint of a new instance says.
	answers volume.Fingerprint
	fails   error // of RunVolume
}

func newHost() *fakeHost {
	return &fakeHost{prints: map[string]*pluginhost.VolumeFingerprint{}, plugins: map[string]*fakePlugin{}, changed: make(chan struct{}), answers: volume.Fingerprint{
		Provider: "org.example", ProviderVersion: "1", Capabilities: []volume.Capability{volume.CanStage, volume.CanCreate, volume.CanAttach, volume.HasController},
		Node: &volume.Node{ID: "node-0", Topology: volume.Topology{"zone": "a"}},
	}}
}

func (h *fakeHost) change(do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	do()
	close(h.changed)
	h.changed = make(chan struct{})
}

// says changes the fingerprint of a plugin.
func (h *fakeHost) says(name string, do func(*pluginhost.VolumeFingerprint)) {
	h.change(func() {
		next := *h.prints[name]
		do(&next)
		h.prints[name] = &next
	})
}

func (h *fakeHost) Volumes() (out []pluginhost.VolumeFingerprint, changed <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(h.prints)) {
		out = append(out, *h.prints[name])
	}
	return out, h.changed
}

func (h *fakeHost) WithVolume(ctx context.Context, name string, do func(context.Context, volume.Backend) error) error {
	h.mu.Lock()
	p, ok := h.plugins[name], h.prints[name] != nil
	h.mu.Unlock()
	if !ok {
		return errdefs.NotFoundf("no storage plugin %q", name)
	}
	return do(ctx, p)
}

func (h *fakeHost) RunVolume(_ context.Context, i pluginhost.VolumeInstance) error {
	h.mu.Lock()
	err, had := h.fails, h.prints[i.Name] != nil
	h.mu.Unlock()
	if err != nil || had {
		return err
	}
	h.change(func() {
		h.ran = append(h.ran, i)
		if h.plugins[i.Name] == nil {
			h.plugins[i.Name] = &fakePlugin{has: map[string]*volume.Publication{}}
		}
		h.prints[i.Name] = &pluginhost.VolumeFingerprint{Name: i.Name, Plugin: i.Plugin + "@" + i.Name, Fingerprint: h.answers}
	})
	return nil
}

func (h *fakeHost) EndVolume(_ context.Context, _, name string) error {
	h.change(func() { delete(h.prints, name) })
	return nil
}

func (h *fakeHost) instances() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(h.prints)), " ")
}

// fakePlugin is a storage plugin with the rules of the contract about what is staged and
// published.
type fakePlugin struct {
	volume.Backend // what no test needs

	mu  sync.Mutex
	has map[string]*volume.Publication
	did []string
	// answer is asked before each call; nil does nothing.
	answer func(call string) error
}

func (p *fakePlugin) begin(call, id string) error {
	p.mu.Lock()
	p.did = append(p.did, call+" "+id)
	answer := p.answer
	p.mu.Unlock()
	if answer != nil {
		return answer(call)
	}
	return nil
}

func (p *fakePlugin) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := strings.Join(p.did, ", ")
	p.did = nil
	return out
}

func (p *fakePlugin) of(id string) *volume.Publication {
	if p.has[id] == nil {
		p.has[id] = &volume.Publication{ID: id}
	}
	return p.has[id]
}

func (p *fakePlugin) Stage(_ context.Context, r volume.StageRequest) error {
	if err := p.begin("stage", r.ID); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of(r.ID).StagingPath = r.StagingPath
	return nil
}

func (p *fakePlugin) Publish(_ context.Context, r volume.PublishRequest) error {
	if err := p.begin("publish", r.ID); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.of(r.ID)
	if v.StagingPath != r.StagingPath {
		return errdefs.WithReason(errdefs.FailedPreconditionf("it is not staged"), volume.ReasonNotStaged)
	}
	if !slices.Contains(v.TargetPaths, r.TargetPath) {
		v.TargetPaths = append(v.TargetPaths, r.TargetPath)
	}
	return nil
}

func (p *fakePlugin) Unpublish(_ context.Context, id, target string) error {
	if err := p.begin("unpublish", id); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	v := p.of(id)
	v.TargetPaths = slices.DeleteFunc(v.TargetPaths, func(s string) bool { return s == target })
	return nil
}

func (p *fakePlugin) Unstage(_ context.Context, id, _ string) error {
	if err := p.begin("unstage", id); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.of(id).TargetPaths) > 0 {
		return errdefs.FailedPreconditionf("it is published")
	}
	delete(p.has, id)
	return nil
}

func (p *fakePlugin) Published(context.Context) (out []volume.Publication, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(p.has)) {
		one := *p.has[id]
		one.TargetPaths = slices.Clone(one.TargetPaths)
		if one.StagingPath != "" || len(one.TargetPaths) > 0 {
			out = append(out, one)
		}
	}
	return out, nil
}

func (p *fakePlugin) Create(_ context.Context, r volume.CreateRequest) (*volume.Description, error) {
	if err := p.begin("create", r.Name); err != nil {
		return nil, err
	}
	return &volume.Description{ID: "ext-" + r.Name}, nil
}

func (p *fakePlugin) Delete(_ context.Context, id string, _ volume.Secrets) error {
	return p.begin("delete", id)
}

// memStore keeps values in memory.
type memStore struct {
	mu    sync.Mutex
	of    map[string][]byte
	onPut func() // called before each write, if it is set
}

func (s *memStore) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.of[key]; v != nil {
		return v, nil
	}
	return nil, errdefs.NotFoundf("no %s", key)
}

func (s *memStore) Put(_ context.Context, key string, value []byte) error {
	if s.onPut != nil {
		s.onPut()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[key] = value
	return nil
}

// bed is a keeper on fakes.
type bed struct {
	t     *testing.T
	host  *fakeHost
	store *memStore
	cfg   storage.Config
	k     *storage.Keeper

	mu     sync.Mutex
	gone   map[string]bool // allocs that live no more, or use no volumes
	events []string
	failed []string
	// refuses is what servers answer to claims; nil grants the volume of the request.
	refuses error
	claims  int
	stop    context.CancelFunc
}

// with runs a test with a keeper in a bubble.
func with(t *testing.T, do func(t *testing.T, b *bed)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bed{t: t, host: newHost(), store: &memStore{of: map[string][]byte{}}, gone: map[string]bool{}}
		b.cfg = storage.Config{
			Dir: dir, Plugins: b.host, Store: b.store, Claim: b.claim, Now: time.Now, Logger: hclog.NewNullLogger(),
			Lives: b.lives, Uses: b.lives,
		}
		b.open()
		defer b.close()
		do(t, b)
	})
}

func (b *bed) open() {
	b.t.Helper()
	k, err := storage.Open(context.Background(), b.cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	b.k, b.stop = k, func() { stop(); <-done }
}

func (b *bed) close() {
	b.stop()
	b.k.Close()
}

func (b *bed) claim(_ context.Context, q rpc.VolumeQuery) (rpc.VolumeGrant, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.claims++
	if b.refuses != nil {
		return rpc.VolumeGrant{}, b.refuses
	}
	return rpc.VolumeGrant{Namespace: "default", ID: q.Volume, ExternalID: "ext-" + q.Volume, Plugin: "disk"}, nil
}

func (b *bed) lives(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.gone[id]
}

func (b *bed) bury(id string) {
	b.mu.Lock()
	b.gone[id] = true
	b.mu.Unlock()
	b.k.Look()
}

// driver is a task that is the driver "disk".
func (b *bed) driver(allocID, kind string) storage.Driver {
	return storage.Driver{
		AllocID: allocID, Task: "plugin", Plugin: &model.TaskCSIPluginConfig{ID: "disk", Type: kind, MountDir: "/csi", StagePublishBaseDir: "/local/csi", HealthTimeout: 30 * time.Second},
		Note: func(ev model.TaskEvent) { b.note(&b.events, allocID, ev) }, Fail: func(ev model.TaskEvent) { b.note(&b.failed, allocID, ev) },
	}
}

func (b *bed) note(into *[]string, allocID string, ev model.TaskEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*into = append(*into, fmt.Sprintf("%s: %s: %s", allocID, ev.Type, ev.Message))
}

func (b *bed) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := strings.Join(b.events, "; ")
	b.events = nil
	return out
}

// health says how the node reports the driver.
func (b *bed) health() string {
	controllers, nodes, _ := b.k.Offered()
	var out []string
	for kind, all := range map[string]map[string]*model.CSIInfo{"controller": controllers, "node": nodes} {
		for id, r := range all {
			out = append(out, fmt.Sprintf("%s %s of %s %t", kind, id, r.AllocID, r.Healthy))
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func (b *bed) wants(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s: %q, want %q", what, got, want)
	}
}
