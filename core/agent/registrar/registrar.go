// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registrar keeps the services of a node's allocs registered in clusters outside of
// Drover, such as those of Consul. It owns when a cluster is synchronised: when something
// changes, when the cluster can be reached again, and at intervals, because it may have lost
// what it knew. It remembers nothing: each time it names all that the node's allocs offer, so
// nothing is left behind by an agent that was killed. It does not know how services are
// registered (plugins do) or what an alloc offers (core/agent/alloc does). Only core/agent
// may import it.
package registrar

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/agent/logins"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Plugin is the file of the plugin that registers services in Consul. It serves nothing
// until the agent's configuration names a cluster.
const Plugin = "consul"

// Host is the part of the plugin host that registers services.
type Host interface {
	Registries() ([]pluginhost.RegistryFingerprint, <-chan struct{})
	SyncServices(ctx context.Context, registryName string, r registry.SyncRequest) (*registry.SyncResult, error)
}

// Runner is an alloc of the node.
type Runner interface {
	ID() string
	Offers() []alloc.Offered
	// NoteRefused tells that a cluster refuses a service of the alloc.
	NoteRefused(reason string)
	// Logins are those that the tasks of the alloc that have not ended may have.
	Logins() []logins.Login
	// TakeCredential gives a task the secret of its login, which is a new one or not.
	TakeCredential(task, secret string)
}

// Logins keeps the credentials of workloads. *logins.Keeper implements it.
type Logins interface {
	Get(ctx context.Context, l logins.Login) (registry.Credential, error)
	Has(ctx context.Context, at logins.Place, id string) (registry.Credential, bool)
	All(ctx context.Context, at logins.Place) (map[string]registry.Credential, error)
	Forget(ctx context.Context, at logins.Place, id string, c registry.Credential) error
	Keep(ctx context.Context, at logins.Place, wanted map[string]bool) error
}

// Config configures a Keeper.
type Config struct {
	Host    Host
	Owner   string // id of the node
	Runners func() []Runner
	Logins  Logins
	Logger  hclog.Logger
	// Own returns services of the agent itself for a cluster; nil means that there are none.
	Own func(registryName, cluster string) []registry.Registration
	// Every is the interval at which clusters are synchronised though nothing has changed,
	// Pace the shortest pause between two times, and Retry the first and the longest pause
	// after a failure; 0 means the defaults.
	Every, Pace         time.Duration
	RetryMin, RetryLast time.Duration
}

// The defaults. Results of checks that the node runs are valid for longer than every.
const (
	every    = 30 * time.Second
	pace     = 200 * time.Millisecond
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// Keeper keeps the clusters of a node synchronised.
type Keeper struct {
	cfg  Config
	work sync.WaitGroup

	mu       sync.Mutex
	clusters map[logins.Place]*cluster
}

// cluster is a cluster that is kept synchronised.
type cluster struct {
	logins.Place
	changed chan struct{} // has room for one
	healthy bool          // guarded by Keeper.mu
	refused map[string]string

	synced chan struct{} // closed after each try; guarded by Keeper.mu
}

// New makes a keeper. Nothing happens until Run.
func New(cfg Config) *Keeper {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&cfg.Every, every)
	set(&cfg.Pace, pace)
	set(&cfg.RetryMin, retryMin)
	set(&cfg.RetryLast, retryMax)
	return &Keeper{cfg: cfg, clusters: map[logins.Place]*cluster{}}
}

// Changed says that what the node's allocs offer may have changed. It does not block.
func (k *Keeper) Changed() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.clusters {
		c.wake()
	}
}

func (c *cluster) wake() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run keeps the clusters synchronised until ctx ends. What is registered then stays.
func (k *Keeper) Run(ctx context.Context) {
	defer k.work.Wait()
	for {
		prints, changed := k.cfg.Host.Registries()
		for _, p := range prints {
			for _, c := range p.Clusters {
				k.note(ctx, logins.Place{Registry: p.Name, Cluster: c.Name}, c.Healthy)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// note begins to keep a cluster synchronised, and wakes one that can be reached again.
func (k *Keeper) note(ctx context.Context, at logins.Place, healthy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.clusters[at]
	if c == nil {
		if !healthy {
			return
		}
		c = &cluster{Place: at, changed: make(chan struct{}, 1), refused: map[string]string{}, synced: make(chan struct{})}
		k.clusters[at] = c
		k.work.Go(func() { k.keep(ctx, c) })
	}
	if healthy && !c.healthy {
		c.wake()
	}
	c.healthy = healthy
}

// keep synchronises one cluster until ctx ends.
func (k *Keeper) keep(ctx context.Context, c *cluster) {
	failures := 0
	for {
		err := k.sync(ctx, c)
		pause := k.cfg.Every
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if failures == 0 {
				k.cfg.Logger.Warn("services could not be registered; it is tried again", "registry", c.Registry, "cluster", c.Cluster, "error", err)
			}
			failures++
			pause = min(k.cfg.RetryMin<<min(failures-1, 10), k.cfg.RetryLast)
		case failures > 0:
			failures = 0
			k.cfg.Logger.Info("services are registered again", "registry", c.Registry, "cluster", c.Cluster)
		}
		if !k.await(ctx, c, pause) {
			return
		}
	}
}

// await waits for a change, or for the pause to end. It returns false once ctx has ended.
func (k *Keeper) await(ctx context.Context, c *cluster, pause time.Duration) bool {
	due := time.NewTimer(pause)
	defer due.Stop()
	apart := time.NewTimer(min(k.cfg.Pace, pause)) // changes come in groups
	defer apart.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-apart.C:
	}
	select {
	case <-ctx.Done():
		return false
	case <-due.C:
	case <-c.changed:
	}
	return true
}

// sync makes the cluster have what the node's allocs offer now, and ends the credentials of
// workloads that are done.
func (k *Keeper) sync(ctx context.Context, c *cluster) error {
	o := k.offers(c.Place)
	lacking := k.logIn(ctx, c, o)
	credentials, err := k.cfg.Logins.All(ctx, c.Place)
	var result *registry.SyncResult
	if err == nil {
		result, err = k.cfg.Host.SyncServices(ctx, c.Registry, registry.SyncRequest{Owner: k.cfg.Owner, Cluster: c.Cluster, Services: o.services, Credentials: credentials})
	}
	k.tried(c)
	if err != nil {
		return err
	}
	unknown := 0
	for _, r := range result.Refusals {
		o.refused[r.ID] = r.Reason
		if cred, has := credentials[r.ID]; has && r.Login {
			unknown++
			if err := k.cfg.Logins.Forget(ctx, c.Place, r.ID, cred); err != nil {
				return err
			}
		}
	}
	k.tell(c, o)
	if err := k.cfg.Logins.Keep(ctx, c.Place, o.logins); err != nil {
		return fmt.Errorf("end credentials of workloads: %w", err)
	}
	if unknown > 0 {
		return errdefs.Unavailablef("the cluster does not know the credentials of %d services any more; they log in again", unknown)
	}
	return lacking
}

// tried tells Flush that a try to synchronise a cluster has ended.
func (k *Keeper) tried(c *cluster) {
	k.mu.Lock()
	defer k.mu.Unlock()
	close(c.synced)
	c.synced = make(chan struct{})
}

// offered is what is to be in a cluster.
type offered struct {
	services []registry.Registration
	owners   map[string]Runner       // by the ids of services
	wants    map[string]logins.Login // of services, by their ids
	logins   map[string]bool         // ids of logins that are wanted
	refused  map[string]string       // reasons by the ids of services
}

// logIn gets the credentials of services, and leaves out the services that get none. It also
// replaces the credentials of tasks that are due. An error means that some services must be
// tried again.
func (k *Keeper) logIn(ctx context.Context, c *cluster, o *offered) (lacking error) {
	o.services = slices.DeleteFunc(o.services, func(s registry.Registration) bool {
		l, ok := o.wants[s.ID]
		if !ok {
			return false
		}
		_, err := k.cfg.Logins.Get(ctx, l)
		if errdefs.IsRetryable(err) || ctx.Err() != nil {
			lacking = err
		}
		if err != nil {
			o.refused[s.ID] = fmt.Sprintf("service %q has no credential: %v", s.Name, err)
		}
		return err != nil
	})
	for _, r := range k.cfg.Runners() {
		for _, l := range r.Logins() {
			if l.Place != c.Place {
				continue
			}
			o.logins[l.ID] = true
			if _, has := k.cfg.Logins.Has(ctx, l.Place, l.ID); !has {
				continue // the task logs in when it starts
			}
			if cred, err := k.cfg.Logins.Get(ctx, l); err == nil {
				r.TakeCredential(l.Task, cred.Secret)
			}
		}
	}
	return lacking
}

// tell tells of services that are refused, each once.
func (k *Keeper) tell(c *cluster, o *offered) {
	for _, id := range slices.Sorted(maps.Keys(o.refused)) {
		reason := o.refused[id]
		if c.refused[id] == reason {
			continue
		}
		k.cfg.Logger.Warn("a service is not registered, because its cluster refuses it", "registry", c.Registry, "cluster", c.Cluster, "service", id, "reason", reason)
		if owner := o.owners[id]; owner != nil {
			owner.NoteRefused(fmt.Sprintf("Cluster %q of %s refuses a service: %s", c.Cluster, c.Registry, reason))
		}
	}
	c.refused = o.refused
}

// offers returns what is to be registered in a cluster, ordered by id.
func (k *Keeper) offers(at logins.Place) *offered {
	out := &offered{owners: map[string]Runner{}, wants: map[string]logins.Login{}, logins: map[string]bool{}, refused: map[string]string{}}
	byID := map[string]registry.Registration{}
	if k.cfg.Own != nil {
		for _, s := range k.cfg.Own(at.Registry, at.Cluster) {
			byID[s.ID] = s
		}
	}
	for _, r := range k.cfg.Runners() {
		for _, o := range r.Offers() {
			if o.Registry != at.Registry || o.Cluster != at.Cluster {
				continue
			}
			byID[o.ID], out.owners[o.ID] = o.Registration, r
			if o.Login != nil {
				out.wants[o.ID], out.logins[o.ID] = *o.Login, true
			}
		}
	}
	out.services = make([]registry.Registration, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out.services = append(out.services, byID[id])
	}
	return out
}

// Flush returns once every cluster that can be reached was synchronised with what is offered
// now, or ctx has ended.
func (k *Keeper) Flush(ctx context.Context) {
	k.mu.Lock()
	var all []*cluster
	for _, c := range k.clusters {
		if c.healthy {
			all = append(all, c)
		}
	}
	k.mu.Unlock()
	for range 2 { // a try that has begun may know of too little
		var ends []<-chan struct{}
		k.mu.Lock()
		for _, c := range all {
			c.wake()
			ends = append(ends, c.synced)
		}
		k.mu.Unlock()
		for _, end := range ends {
			select {
			case <-end:
			case <-ctx.Done():
				return
			}
		}
	}
}
