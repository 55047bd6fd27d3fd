// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package releases_test

import (
	"context"
	"io"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/releases"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// fakeServers want what a test sets.
type fakeServers struct {
	mu     sync.Mutex
	answer rpc.PluginAnswer
	away   bool
	asked  int
	files  map[string]string
}

func (s *fakeServers) Plugins(context.Context, rpc.Identity) (rpc.PluginAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.away {
		return rpc.PluginAnswer{}, errdefs.Unavailablef("no servers")
	}
	return s.answer, nil
}

func (s *fakeServers) PluginFile(_ context.Context, _ rpc.Identity, digest string, take func([]byte) error) error {
	s.mu.Lock()
	text, ok := s.files[digest]
	s.mu.Unlock()
	if !ok {
		return errdefs.NotFoundf("no file %s", digest)
	}
	for _, piece := range strings.SplitAfter(text, " ") {
		if err := take([]byte(piece)); err != nil {
			return err
		}
	}
	return nil
}

// fakeHost has plugins by name, and refuses what a test says.
type fakeHost struct {
	mu       sync.Mutex
	digests  map[string]string
	changed  chan struct{}
	installs []string // "name digest body"
	removes  []string
	refuse   error
	busy     bool
}

func (h *fakeHost) Install(_ context.Context, name string, r *model.PluginRelease, body io.Reader) error {
	text := ""
	if body != nil {
		b, err := io.ReadAll(body)
		if err != nil {
			return err
		}
		text = string(b)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.installs = append(h.installs, strings.TrimSpace(name+" "+r.Digest+" "+text))
	if h.refuse != nil {
		return h.refuse
	}
	h.set(name, r.Digest)
	return nil
}

// set changes what lies under a name, "" for nothing; the lock is held.
func (h *fakeHost) set(name, digest string) {
	if h.digests[name] = digest; digest == "" {
		delete(h.digests, name)
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *fakeHost) Remove(_ context.Context, name string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return errdefs.FailedPreconditionf("plugin %q has tasks", name)
	}
	h.removes = append(h.removes, name)
	h.set(name, "")
	return nil
}

func (h *fakeHost) Digests() (map[string]string, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.digests), h.changed
}

type fakeStore struct {
	mu   sync.Mutex
	data map[string][]byte
}

func (s *fakeStore) Get(_ context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.data[key]; ok {
		return b, nil
	}
	return nil, errdefs.NotFoundf("no %s", key)
}

func (s *fakeStore) Put(_ context.Context, key string, value []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data[key] = value
	return nil
}

// bed is a node's keeper among fakes, on a fake clock.
type bed struct {
	t       *testing.T
	servers *fakeServers
	host    *fakeHost
	store   *fakeStore
	keeper  *releases.Keeper
	stop    func()
}

func inBubble(t *testing.T, test func(b *bed)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bed{
			t: t, servers: &fakeServers{files: map[string]string{}},
			host: &fakeHost{digests: map[string]string{}, changed: make(chan struct{})}, store: &fakeStore{data: map[string][]byte{}},
		}
		b.start()
		defer func() { b.stop() }()
		test(b)
	})
}

func (b *bed) start() {
	k, err := releases.New(b.t.Context(), releases.Config{
		Servers: b.servers, Host: b.host, Store: b.store, Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); k.Run(ctx) }()
	b.keeper, b.stop = k, func() { cancel(); <-done }
}

func (b *bed) restart() {
	b.stop()
	b.start()
}

func release(revision uint64, digest string) *model.PluginRelease {
	return &model.PluginRelease{Revision: revision, Digest: digest, Source: "/on/the/node"}
}

// wants has the servers answer, and waits until the keeper has acted.
func (b *bed) wants(plugins ...rpc.WantedPlugin) {
	b.t.Helper()
	b.servers.mu.Lock()
	b.servers.answer = rpc.PluginAnswer{Index: b.servers.answer.Index + 1, Confirmed: true, Plugins: plugins}
	b.servers.mu.Unlock()
	b.keeper.Ask()
	synctest.Wait()
}

func (b *bed) installed(want ...string) {
	b.t.Helper()
	b.host.mu.Lock()
	defer b.host.mu.Unlock()
	if got := strings.Join(b.host.installs, "; "); got != strings.Join(want, "; ") {
		b.t.Fatalf("installed: %s; want %s", got, strings.Join(want, "; "))
	}
}

func (b *bed) says(revision, failed uint64, text string) {
	b.t.Helper()
	r := b.keeper.Report()["p"]
	if r == nil || r.Revision != revision || r.Failed != failed || !strings.Contains(r.Error, text) || text == "" && r.Error != "" {
		b.t.Fatalf("it says %+v; want revision %d, failed %d, %q", r, revision, failed, text)
	}
}

func TestAReleaseIsInstalledOnceAndReported(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.says(5, 0, "")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.restart()
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.says(5, 0, "")
		b.installed("p d5")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(6, "d6")})
		b.says(6, 0, "")
		b.installed("p d5", "p d6")
	})
}

func TestAnUploadedFileComesFromTheServers(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.servers.files["d5"] = "a file in pieces"
		r := release(5, "d5")
		r.Source = model.PluginSourceUploaded
		b.wants(rpc.WantedPlugin{Name: "p", Release: r})
		b.installed("p d5 a file in pieces")
		gone := release(6, "d6")
		gone.Source = model.PluginSourceUploaded
		b.wants(rpc.WantedPlugin{Name: "p", Release: gone})
		b.says(5, 6, "no file d6")
	})
}

func TestWhatFailedIsReportedAndNotTriedAgain(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.host.refuse = errdefs.FailedPreconditionf("it does not start")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.says(0, 5, "it does not start")
		time.Sleep(time.Hour)
		b.installed("p d5")
		b.host.refuse = nil
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(6, "d5")}) // registered again
		b.says(6, 0, "")
	})
}

func TestWhatIsOutOfReachIsTriedAgainWithoutCallingItAFailure(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.host.refuse = errdefs.Unavailablef("connection refused")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.says(0, 0, "connection refused")
		b.host.mu.Lock()
		b.host.refuse = nil
		b.host.mu.Unlock()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		b.says(5, 0, "")
	})
}

func TestOnePassDoesNotFollowAnotherWithoutAPause(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.host.refuse = errdefs.Unavailablef("connection refused")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.servers.mu.Lock()
		b.servers.answer.Plugins, b.servers.answer.Confirmed = nil, false // nothing to retry, nothing to remove
		b.servers.mu.Unlock()
		time.Sleep(time.Minute)
		b.servers.mu.Lock()
		defer b.servers.mu.Unlock()
		if b.servers.asked > 90 {
			t.Fatalf("it asked %d times in a minute", b.servers.asked)
		}
	})
}

func TestWhatTheRegistryGaveGoesWhenItIsGoneThere(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.host.mu.Lock()
		b.host.busy = true
		b.host.mu.Unlock()
		b.wants()
		b.says(5, 0, "has tasks")
		b.host.mu.Lock()
		b.host.busy = false
		b.host.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(b.host.removes) != 1 || b.keeper.Report() != nil {
			t.Fatalf("removed %q, it says %+v", b.host.removes, b.keeper.Report())
		}
	})
}

func TestAnOperatorsOwnPluginIsNeverRemoved(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.host.digests["p"] = "own"
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.says(5, 0, "")
		b.restart()
		b.wants()
		if len(b.host.removes) != 0 || b.keeper.Report() != nil {
			t.Fatalf("removed %q, it says %+v", b.host.removes, b.keeper.Report())
		}
	})
}

func TestNothingIsRemovedOnTheWordOfAServerThatNoLeaderVouchesFor(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		for _, answer := range []rpc.PluginAnswer{{Index: 99}, {Index: 1, Confirmed: true}} {
			b.servers.mu.Lock()
			b.servers.answer = answer
			b.servers.mu.Unlock()
			b.keeper.Ask()
			synctest.Wait()
		}
		b.says(5, 0, "")
	})
}

func TestANodeKeepsItsPluginsWhileServersAreAway(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.servers.mu.Lock()
		b.servers.away = true
		b.servers.mu.Unlock()
		b.restart()
		b.keeper.Ask()
		time.Sleep(time.Hour)
		b.says(5, 0, "")
	})
}

func TestAPluginThatFellBackIsReportedAsFailed(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(6, "d6")})
		b.host.mu.Lock()
		b.host.set("p", "d5") // the host gave the new one up
		b.host.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		b.says(5, 6, "went back")
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(6, "d6")})
		b.installed("p d5", "p d6")
		b.wants(rpc.WantedPlugin{Name: "p"}) // keep what you have
		b.says(5, 6, "went back")
	})
}

func TestAFileThatSomebodyRemovedComesBack(t *testing.T) {
	inBubble(t, func(b *bed) {
		b.wants(rpc.WantedPlugin{Name: "p", Release: release(5, "d5")})
		b.host.mu.Lock()
		b.host.set("p", "")
		b.host.mu.Unlock()
		time.Sleep(time.Second)
		synctest.Wait()
		b.says(5, 0, "")
		b.installed("p d5", "p d5")
	})
}
