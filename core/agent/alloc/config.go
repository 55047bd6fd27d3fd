// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/time/rate"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/agent/group"
	"github.com/drover-project/drover/core/agent/storage"
	"github.com/drover-project/drover/core/agent/task"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/driver"
)

// Drivers finds task drivers by name; *pluginhost.Host does.
type Drivers interface {
	Driver(name string) (driver.Driver, error)
}

// Store stores what is needed after a restart of the agent. A write is durable when it
// returns. *local.Store implements it.
type Store interface {
	PutAlloc(ctx context.Context, rec *Record) error
	PutStates(ctx context.Context, allocID string, s States) error
	DeleteAlloc(ctx context.Context, allocID string) error
}

// Record is the stored state of an alloc.
type Record struct {
	Alloc    *model.Allocation // with its Job
	Received time.Time
	Health   *model.AllocDeploymentStatus
	UID      int      `json:",omitempty"` // user id that Users assigned; 0 means none
	Network  *Network `json:",omitempty"` // nil if the group has no network of its own
	// Mounts are what the alloc has of volumes of storage plugins, or may have, by the names
	// of the requests.
	Mounts map[string]*storage.Mount `json:",omitempty"`
	// States are stored separately.
	States `json:"-"`
}

// States are the stored states of an alloc. A write contains only the changed states.
type States struct {
	Group *group.State // nil for a group without steps
	Tasks map[string]TaskRecord
	// Checks are the states of the alloc's checks; in a write, nil if none has changed.
	Checks map[string]checks.State
}

// TaskRecord is the stored state of a task.
type TaskRecord struct {
	State   task.State
	Handle  *driver.Handle `json:",omitempty"`
	Fetched bool           `json:",omitempty"` // its artifacts were fetched
	// Renew is when tokens of its identities are to be renewed, by name. The tokens
	// themselves are not stored.
	Renew map[string]time.Time `json:",omitempty"`
	// Address is the network that the driver gave the task; nil if it gave none.
	Address *driver.NetworkOverride `json:",omitempty"`
}

// Config is the configuration that all runners of a node share.
type Config struct {
	Node    func() *model.Node
	Region  string
	Root    string // directory of the allocs' directories
	Drivers Drivers
	Store   Store
	// Publish receives the newest client state of an alloc. It must not block.
	Publish func(a *model.Allocation)
	// Ended is called when all tasks of an alloc are dead. It must not block.
	Ended func(allocID string)
	// Previous returns a channel that is closed once an alloc has ended on this node, or
	// nil if the node does not have it.
	Previous func(allocID string) <-chan struct{}
	Starts   chan struct{} // limits the number of concurrent starts
	Limits   Limits
	// Devices, Artifacts and Templates are nil if the node does not support them.
	Devices Devices
	// Networks makes networks of groups; nil if the node cannot.
	Networks Networks
	// Storage brings volumes of storage plugins; nil if the node cannot.
	Storage Storage
	// Resolver answers the DNS questions of groups with a network of mode "bridge"; nil if
	// nobody does.
	Resolver Resolver
	// Disks limits the directories of allocs; nil if nobody does.
	Disks     Disks
	Artifacts Artifacts
	Templates Templates
	// Checks runs the checks of services.
	Checks *checks.Node
	// Identities and API are nil if the node does not support them.
	Identities Identities
	API        API
	// Logins logs tasks in at Consul; nil if the node cannot.
	Logins Logins
	// Data fetches the data of allocs from other nodes; nil if the node cannot. DataPace
	// limits how fast; nil means no limit.
	Data     Data
	DataPace *rate.Limiter
	// Cgroups makes cgroups for tasks; nil if the node cannot.
	Cgroups Cgroups
	// CoresChanged is called when Cgroups.Shared may return something else; nil if nobody
	// needs to know. It must not block.
	CoresChanged func()
	// SecretsInMemory: secrets folders are memory file systems.
	SecretsInMemory bool
	// Users gives ids to allocs; nil gives none.
	Users *Users
	// MaxKillTimeout limits the jobs' kill timeouts; 0 means no limit.
	MaxKillTimeout time.Duration
	// HostEnv is the agent's environment, as os.Environ gives it.
	HostEnv []string
	Rules   Rules
	Now     func() time.Time
	Jitter  func() float64 // 0..1
	Logger  hclog.Logger
}

// killTimeout returns the effective kill timeout of a task.
func (c *Config) killTimeout(t *model.Task) time.Duration {
	if c.MaxKillTimeout > 0 {
		return min(t.KillTimeout, c.MaxKillTimeout)
	}
	return t.KillTimeout
}

func (c *Config) specOf(a *model.Allocation, tg *model.TaskGroup, t *model.Task) task.Spec {
	job := a.Job
	policy := model.RestartPolicy{Mode: model.RestartPolicyModeFail}
	switch {
	case t.RestartPolicy != nil:
		policy = *t.RestartPolicy
	case tg.RestartPolicy != nil:
		policy = *tg.RestartPolicy
	}
	batch := job.Completes()
	if t.Lifecycle != nil {
		batch = !t.Lifecycle.Sidecar
	}
	delay := t.ShutdownDelay
	if tg.ShutdownDelay != nil && !task.Sidecar(t) { // a sidecar ends after other tasks, which have already waited
		delay = max(delay, *tg.ShutdownDelay)
	}
	return task.Spec{
		Restart: policy, KillSignal: t.KillSignal, KillTimeout: c.killTimeout(t),
		ShutdownDelay: delay, EndsWell: batch, Limits: c.limitsOf(a, t.Name), Window: c.windowOf(a, t),
	}
}
