// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registrar_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/agent/registrar"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// host is a plugin host with one registry.
type host struct {
	mu      sync.Mutex
	prints  []pluginhost.RegistryFingerprint
	changed chan struct{}
	has     map[string][]string // services by cluster
	calls   int
	err     error
	refuse  string
	unknown bool // the refused service has a credential that the cluster does not know
	used    map[string]registry.Credential
}

func newHost(clusters ...string) *host {
	h := &host{changed: make(chan struct{}), has: map[string][]string{}}
	for _, c := range clusters {
		h.prints = append(h.prints, pluginhost.RegistryFingerprint{Name: "consul", Clusters: []registry.Cluster{{Name: c, Healthy: true}}})
	}
	return h
}

func (h *host) Registries() ([]pluginhost.RegistryFingerprint, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.prints), h.changed
}

func (h *host) SyncServices(_ context.Context, _ string, r registry.SyncRequest) (*registry.SyncResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.err != nil {
		return nil, h.err
	}
	out := &registry.SyncResult{}
	h.used = r.Credentials
	h.has[r.Cluster] = nil
	for _, s := range r.Services {
		if s.ID == h.refuse {
			out.Refusals = append(out.Refusals, registry.Refusal{ID: s.ID, Reason: "no", Login: h.unknown})
			continue
		}
		h.has[r.Cluster] = append(h.has[r.Cluster], s.ID)
	}
	return out, nil
}

func (h *host) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *host) services(cluster string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.has[cluster])
}

// credentials returns those of the last call.
func (h *host) credentials() map[string]registry.Credential {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.used)
}

// runner offers services by cluster.
type runner struct {
	mu     sync.Mutex
	offers []alloc.Offered
	told   []string
	tasks  []logins.Login
	taken  []string
}

func (r *runner) Logins() []logins.Login {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.tasks)
}

func (r *runner) TakeCredential(task, secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taken = append(r.taken, task+" "+secret)
}

// log returns what the runner was told, and the credentials that it was given.
func (r *runner) log() (told, taken []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told), slices.Clone(r.taken)
}

// end ends the runner's services and tasks.
func (r *runner) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers, r.tasks = nil, nil
}

// entrance is where workloads log in: a map of credentials by the ids of logins.
type entrance struct {
	mu   sync.Mutex
	held map[string]registry.Credential
	made int
	err  error
	lost error // of All
}

func (e *entrance) Get(_ context.Context, l logins.Login) (registry.Credential, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c, ok := e.held[l.ID]; ok || e.err != nil {
		return c, e.err
	}
	e.made++
	e.held[l.ID] = registry.Credential{ID: l.ID, Secret: "secret of " + l.ID}
	return e.held[l.ID], nil
}

func (e *entrance) Has(_ context.Context, _ logins.Place, id string) (registry.Credential, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.held[id]
	return c, ok
}

func (e *entrance) All(context.Context, logins.Place) (map[string]registry.Credential, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return maps.Clone(e.held), e.lost
}

func (e *entrance) Forget(_ context.Context, _ logins.Place, id string, _ registry.Credential) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.held, id)
	return nil
}

func (e *entrance) Keep(_ context.Context, _ logins.Place, wanted map[string]bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	maps.DeleteFunc(e.held, func(id string, _ registry.Credential) bool { return !wanted[id] })
	return nil
}

// logins returns how often somebody has logged in.
func (e *entrance) logins() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.made
}

func (e *entrance) ids() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Sorted(maps.Keys(e.held))
}

func (r *runner) ID() string { return "a1" }

func (r *runner) Offers() []alloc.Offered {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.offers)
}

func (r *runner) NoteRefused(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, reason)
}

func (r *runner) offer(cluster string, ids ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offers = nil
	for _, id := range ids {
		r.offers = append(r.offers, alloc.Offered{Registry: "consul", Cluster: cluster, Registration: registry.Registration{ID: id, Name: id}})
	}
}

func keeper(h *host, r *runner) *registrar.Keeper {
	return keeperAt(h, r, &entrance{held: map[string]registry.Credential{}})
}

func keeperAt(h *host, r *runner, e *entrance) *registrar.Keeper {
	return registrar.New(registrar.Config{Host: h, Logins: e, Owner: "n1", Runners: func() []registrar.Runner { return []registrar.Runner{r} }, Logger: hclog.NewNullLogger()})
}

func TestAClusterHasWhatTheNodeOffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := newHost("default", "other"), &runner{}
		r.offer("default", "web")
		k := keeper(h, r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		expect := func(when string, want ...string) {
			t.Helper()
			if got := h.services("default"); !slices.Equal(got, want) {
				t.Errorf("%s: registered %q, want %q", when, got, want)
			}
		}
		synctest.Wait()
		expect("at the start", "web")
		r.offer("default", "api", "web")
		k.Changed()
		time.Sleep(time.Second)
		expect("after a change", "api", "web")
		h.set(func() { h.has = map[string][]string{} })
		time.Sleep(31 * time.Second)
		expect("after the cluster has lost everything", "api", "web")
		r.offer("default")
		k.Flush(ctx)
		expect("after the end of the alloc")
		if got := h.services("other"); len(got) > 0 {
			t.Errorf("another cluster has %q", got)
		}
		cancel()
		<-done
	})
}

func TestAClusterThatIsAwayIsTriedAgainAndMoreAndMoreSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := newHost("default"), &runner{}
		h.err = errors.New("it is away")
		r.offer("default", "web")
		k := keeper(h, r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(time.Hour)
		h.mu.Lock()
		calls := h.calls
		h.mu.Unlock()
		if calls < 100 || calls > 150 {
			t.Errorf("%d tries in an hour, want about one every 30 s", calls)
		}
		h.set(func() { h.err = nil; h.prints[0].Clusters = []registry.Cluster{{Name: "default"}} })
		synctest.Wait()
		h.set(func() { h.prints[0].Clusters = []registry.Cluster{{Name: "default", Healthy: true}} })
		time.Sleep(time.Second)
		if got := h.services("default"); !slices.Equal(got, []string{"web"}) {
			t.Errorf("after it came back: %q", got)
		}
		cancel()
		<-done
	})
}

func TestARefusalIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r := newHost("default"), &runner{}
		h.refuse = "web"
		r.offer("default", "api", "web")
		k := keeper(h, r)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(5 * time.Minute)
		cancel()
		<-done
		if told, _ := r.log(); len(told) != 1 || !slices.Equal(h.services("default"), []string{"api"}) {
			t.Errorf("told %q, registered %q", told, h.services("default"))
		}
	})
}

// signed makes the runner's services of the default cluster log in.
func (r *runner) signed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, o := range r.offers {
		r.offers[i].Login = &logins.Login{Place: logins.Place{Registry: "consul", Cluster: "default"}, ID: o.ID, For: registry.ForService, Identity: "of " + o.ID}
	}
}

func TestCredentialsLastAsLongAsWhatTheyAreFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, e := newHost("default"), &runner{}, &entrance{held: map[string]registry.Credential{"left by a killed agent": {ID: "x"}}}
		r.offer("default", "web")
		r.signed()
		at := logins.Place{Registry: "consul", Cluster: "default"}
		r.tasks = []logins.Login{{Place: at, ID: "task/a1/t", Task: "t"}, {Place: at, ID: "task/a1/later", Task: "later"}}
		e.held["task/a1/t"] = registry.Credential{Secret: "s"}
		k := keeperAt(h, r, e)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(time.Second)
		_, taken := r.log()
		used := h.credentials()
		if got := e.ids(); !slices.Equal(got, []string{"task/a1/t", "web"}) || used["web"].Secret != "secret of web" || !slices.Contains(taken, "t s") || slices.Contains(taken, "later secret of task/a1/later") {
			t.Errorf("while they run: %q, used %+v, taken %q", got, used, taken)
		}
		r.end()
		k.Flush(ctx)
		synctest.Wait()
		if got := e.ids(); len(got) != 0 || len(h.services("default")) != 0 {
			t.Errorf("afterwards: %q, registered %q", got, h.services("default"))
		}
		cancel()
		<-done
	})
}

func TestAServiceWithoutACredentialIsNotRegisteredAndTheOthersAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, e := newHost("default"), &runner{}, &entrance{held: map[string]registry.Credential{}, err: errdefs.Unavailablef("no server signs")}
		r.offer("default", "web")
		r.signed()
		r.offers = append(r.offers, alloc.Offered{Registry: "consul", Cluster: "default", Registration: registry.Registration{ID: "plain", Name: "plain"}})
		k := keeperAt(h, r, e)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(100 * time.Millisecond)
		told, _ := r.log()
		if got := h.services("default"); !slices.Equal(got, []string{"plain"}) || len(told) != 1 {
			t.Errorf("registered %q, told %q", got, told)
		}
		e.mu.Lock()
		e.err = nil
		e.mu.Unlock()
		time.Sleep(5 * time.Second)
		if got := h.services("default"); !slices.Equal(got, []string{"plain", "web"}) {
			t.Errorf("after servers came back: registered %q", got)
		}
		cancel()
		<-done
	})
}

func TestACredentialThatIsUnknownIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, r, e := newHost("default"), &runner{}, &entrance{held: map[string]registry.Credential{}}
		r.offer("default", "web")
		r.signed()
		h.refuse, h.unknown = "web", true
		k := keeperAt(h, r, e)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		time.Sleep(100 * time.Millisecond)
		h.set(func() { h.refuse = "" })
		time.Sleep(5 * time.Second)
		if got, made := h.services("default"), e.logins(); !slices.Equal(got, []string{"web"}) || made != 2 {
			t.Errorf("registered %q after %d logins", got, made)
		}
		cancel()
		<-done
	})
}

// An agent that ends flushes what its allocs no longer offer. It must not wait until its limit
// because a cluster cannot be synchronised.
func TestAFlushEndsThoughCredentialsCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, e := newHost("default"), &entrance{lost: errdefs.Internalf("the disk fails")}
		k := keeperAt(h, &runner{}, e)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { k.Run(ctx); close(done) }()
		synctest.Wait()
		within, stop := context.WithTimeout(ctx, time.Hour)
		defer stop()
		if k.Flush(within); within.Err() != nil {
			t.Error("it has waited for an hour")
		}
		cancel()
		<-done
	})
}
