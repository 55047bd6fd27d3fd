// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Instance is one instance of a service.
type Instance struct {
	ID      string
	Address string // an IP address, or the name of a machine
	Port    int
	Tags    []string
	Weight  int // in SRV records; 0 means 1
}

// Answer is what a Source knows of a service.
type Answer struct {
	Instances []Instance
	Index     uint64 // at least 1; another one whenever Instances has changed
}

// Source knows the instances of services.
type Source interface {
	// Instances returns the instances of a service. If since, the Index of the last answer,
	// is still current, it waits for a change, but no longer than wait.
	Instances(ctx context.Context, namespace, service string, since uint64, wait time.Duration) (Answer, error)
}

const (
	// maxNames is how many services are followed at the same time. For another one, makeRoom
	// ends following one of them.
	maxNames = 2000
	// keepName is how long a service is followed after the last question, and keepNone how
	// long if it has no instances.
	keepName, keepNone = 5 * time.Minute, 10 * time.Second
	// freshNames is how many questions per second may be about services that are not followed
	// yet, and freshBurst how many at once. Each of them costs the servers a request.
	freshNames, freshBurst = 100, 500
	// freshEach and freshEachBurst are the same for one client, so that none of them can
	// use up what is there for all.
	freshEach, freshEachBurst = 20, 100
	// follow is the longest time for which a request waits for a change, and fetchGrace how
	// much longer it may take.
	follow, fetchGrace = time.Minute, 10 * time.Second
	// maxRetry is the longest pause between requests that fail.
	maxRetry = 5 * time.Second
)

// names keeps the instances of the services that clients ask for, and follows their changes.
type names struct {
	source Source
	warn   func(service string, err error)
	ctx    context.Context
	work   sync.WaitGroup
	fresh  *rate.Limiter

	mu    sync.Mutex
	known map[serviceKey]*name
}

type serviceKey struct{ namespace, service string }

// name is a service that is followed.
type name struct {
	cancel context.CancelFunc
	ready  chan struct{} // closed after the first answer, or its failure

	// names.mu guards the fields below.
	answer Answer
	err    error // of the first request
	used   time.Time
}

func newNames(ctx context.Context, source Source, warn func(string, error)) *names {
	return &names{source: source, warn: warn, ctx: ctx, fresh: rate.NewLimiter(freshNames, freshBurst), known: map[serviceKey]*name{}}
}

// lookup returns the instances of a service, none if it does not exist. mayFollow reports
// whether who asks may have another service followed.
func (n *names) lookup(ctx context.Context, k serviceKey, mayFollow func() bool) ([]Instance, error) {
	found, err := n.follow(k, mayFollow)
	if err != nil {
		return nil, err
	}
	select {
	case <-found.ready:
	case <-ctx.Done():
		return nil, errdefs.Unavailablef("the servers have not said yet which instances service %q has: %w", k.service, ctx.Err())
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return found.answer.Instances, found.err
}

// follow returns a service, which is followed from now on.
func (n *names) follow(k serviceKey, mayFollow func() bool) (*name, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	if found := n.known[k]; found != nil {
		found.used = now
		return found, nil
	}
	if n.ctx.Err() != nil {
		return nil, errdefs.Unavailablef("the DNS server is closed")
	}
	if !mayFollow() {
		return nil, errdefs.ResourceExhaustedf("more than %d questions of a client in a second are about names that nobody asked for before", freshEach)
	}
	if !n.fresh.Allow() {
		return nil, errdefs.ResourceExhaustedf("more than %d questions of a second are about names that nobody asked for before", freshNames)
	}
	if len(n.known) >= maxNames {
		n.makeRoom()
	}
	ctx, cancel := context.WithCancel(n.ctx)
	made := &name{cancel: cancel, ready: make(chan struct{}), used: now}
	n.known[k] = made
	n.work.Go(func() {
		defer n.forget(k, made)
		n.run(ctx, k, made)
	})
	return made, nil
}

// makeRoom ends following one service: of those without instances, or else of all, the one
// with the oldest last question.
func (n *names) makeRoom() {
	var oldest serviceKey
	var victim *name
	for k, one := range n.known {
		empty := len(one.answer.Instances) == 0
		if victim == nil || empty && len(victim.answer.Instances) > 0 || empty == (len(victim.answer.Instances) == 0) && one.used.Before(victim.used) {
			oldest, victim = k, one
		}
	}
	victim.cancel()
	delete(n.known, oldest)
}

func (n *names) forget(k serviceKey, which *name) {
	n.mu.Lock()
	defer n.mu.Unlock()
	which.cancel()
	if n.known[k] == which {
		delete(n.known, k)
	}
	select {
	case <-which.ready:
	default: // a panic
		which.err = errdefs.Internalf("service %q could not be looked up", k.service)
		close(which.ready)
	}
}

// run follows a service until nobody asks for it any more. While the servers cannot be
// reached, lookup goes on returning their last answer.
func (n *names) run(ctx context.Context, k serviceKey, which *name) {
	defer panics.Handle(func(p *panics.Panic) { n.warn(k.service, errdefs.Internalf("panic: %v", p.Value)) })
	var since uint64
	pause := time.Duration(0)
	for ctx.Err() == nil {
		answer, err := n.fetch(ctx, k, since)
		if ctx.Err() != nil {
			return
		}
		if !n.store(k, which, answer, err) {
			return
		}
		if err != nil {
			if pause == 0 {
				n.warn(k.service, err)
			}
			pause = min(max(2*pause, 250*time.Millisecond), maxRetry)
			_ = sleep.For(ctx, pause/2+rand.N(pause/2))
			continue
		}
		if pause = 0; answer.Index == since {
			_ = sleep.For(ctx, 100*time.Millisecond) // for a source that does not wait
		}
		since = max(answer.Index, 1)
	}
}

func (n *names) fetch(ctx context.Context, k serviceKey, since uint64) (Answer, error) {
	wait := follow
	if since > 0 && n.empty(k) {
		wait = keepNone
	}
	ctx, cancel := context.WithTimeout(ctx, wait+fetchGrace)
	defer cancel()
	return n.source.Instances(ctx, k.namespace, k.service, since, wait)
}

func (n *names) empty(k serviceKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := n.known[k]
	return found == nil || len(found.answer.Instances) == 0
}

// store keeps an answer and reports whether to go on. A service whose first request has failed
// is not known any more when that is said, so that the next question tries again.
func (n *names) store(k serviceKey, which *name, answer Answer, err error) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		which.answer = answer
	}
	select {
	case <-which.ready:
	default:
		which.err = err
		if err != nil && n.known[k] == which {
			delete(n.known, k)
		}
		close(which.ready)
		if err != nil {
			return false
		}
	}
	keep := keepName
	if len(which.answer.Instances) == 0 {
		keep = keepNone
	}
	return time.Since(which.used) < keep
}
