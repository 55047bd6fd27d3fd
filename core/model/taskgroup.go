// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// TaskGroup is a set of tasks that run together on one node. Count is the number of
// allocs of the group.
type TaskGroup struct {
	Name  string
	Count int

	Update                    *UpdateStrategy  // nil: changes create no deployment
	Migrate                   *MigrateStrategy // nil for types that do not migrate
	Constraints               []*Constraint
	Affinities                []*Affinity
	Spreads                   []*Spread
	RestartPolicy             *RestartPolicy
	ReschedulePolicy          *ReschedulePolicy // nil for system jobs
	Disconnect                *DisconnectStrategy
	EphemeralDisk             *EphemeralDisk
	Scaling                   *ScalingPolicy
	Tasks                     []*Task
	Networks                  []*NetworkResource
	Services                  []*Service
	Volumes                   map[string]*VolumeRequest
	Consul                    *Consul
	Meta                      map[string]string
	ShutdownDelay             *time.Duration
	MaxRunDuration            *time.Duration
	StopAfterClientDisconnect *time.Duration
	MaxClientDisconnect       *time.Duration
	PreventRescheduleOnLost   bool
	DependsOn                 []*Dependency `json:",omitempty"` // groups of the job that come first
}

// LookupTask returns the task called name, or nil.
func (tg *TaskGroup) LookupTask(name string) *Task {
	for _, t := range tg.Tasks {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// UpdateStrategy says how a change of a group rolls out.
type UpdateStrategy struct {
	Stagger          time.Duration // system jobs: pause between nodes
	MaxParallel      int           // allocs that may be replaced at once; 0 means all
	HealthCheck      string        // "checks", "task_states" or "manual"
	MinHealthyTime   time.Duration // how long an alloc must stay healthy to count
	HealthyDeadline  time.Duration // an alloc not healthy by then is unhealthy
	ProgressDeadline time.Duration // a deployment fails after this time without progress; 0: at the first unhealthy alloc
	AutoRevert       bool
	AutoPromote      bool
	Canary           int
	// Resources says what becomes of an alloc of which only cpu, memory and memory_max
	// change: UpdateInPlace or UpdateReplace; "" is UpdateReplace.
	Resources string `json:",omitempty"`
}

// Values of UpdateStrategy.Resources.
const (
	UpdateReplace = "replace"
	UpdateInPlace = "in_place" // it keeps running where the node can do that
)

// IsEmpty reports whether u creates no deployment.
func (u *UpdateStrategy) IsEmpty() bool { return u == nil || u.MaxParallel == 0 }

// MigrateStrategy says how allocs leave a node that drains.
type MigrateStrategy struct {
	MaxParallel     int
	HealthCheck     string
	MinHealthyTime  time.Duration
	HealthyDeadline time.Duration
}

// Restart modes of RestartPolicy.
const (
	RestartPolicyModeDelay = "delay" // above the limit, wait for the next interval
	RestartPolicyModeFail  = "fail"  // above the limit, the task fails
)

// RestartPolicy says how a node restarts a task that has ended.
type RestartPolicy struct {
	Attempts        int
	Interval        time.Duration
	Delay           time.Duration // with up to 25 % of jitter
	Mode            string
	RenderTemplates bool
}

// Delay functions of ReschedulePolicy.
const (
	DelayFunctionConstant    = "constant"
	DelayFunctionExponential = "exponential"
	DelayFunctionFibonacci   = "fibonacci"
)

// ReschedulePolicy says whether and when the scheduler replaces a failed alloc.
type ReschedulePolicy struct {
	Attempts      int
	Interval      time.Duration
	Delay         time.Duration
	DelayFunction string
	MaxDelay      time.Duration
	Unlimited     bool
}

// Enabled reports whether p ever replaces an alloc.
func (p *ReschedulePolicy) Enabled() bool { return p != nil && (p.Attempts > 0 || p.Unlimited) }

// Strategies that decide which alloc is kept when a node reconnects whose alloc was
// replaced.
const (
	ReconcileBestScore       = "best_score"       // the one on the better node
	ReconcileKeepOriginal    = "keep_original"    // the alloc on the reconnected node
	ReconcileKeepReplacement = "keep_replacement" // its replacement
	ReconcileLongestRunning  = "longest_running"  // the alloc whose tasks have run longer
)

// DisconnectStrategy says what happens to allocs on an unreachable node.
type DisconnectStrategy struct {
	LostAfter         time.Duration
	StopOnClientAfter *time.Duration
	Replace           *bool
	Reconcile         string
}

// EphemeralDisk is the disk of the alloc directory.
type EphemeralDisk struct {
	Sticky  bool // prefer the same node for the successor, and keep the data
	Migrate bool // copy the data to the successor's node, if it is another one
	SizeMB  int
}

// Moves reports whether the data goes with a successor to another node.
func (d *EphemeralDisk) Moves() bool { return d != nil && d.Sticky && d.Migrate }

// ScalingPolicy is the configuration of an autoscaler, with the limits that scaling
// requests must respect.
type ScalingPolicy struct {
	ID          string
	Type        string            // "horizontal", "vertical_cpu", "vertical_mem"
	Target      map[string]string // Namespace, Job, Group (and Task)
	Policy      map[string]any
	Min         int64
	Max         int64
	Enabled     bool
	CreateIndex uint64
	ModifyIndex uint64
}

// VolumeRequest requests a volume for the tasks of a group.
type VolumeRequest struct {
	Name           string
	Type           string // "host" or "csi"
	Source         string
	ReadOnly       bool
	Sticky         bool
	AccessMode     string
	AttachmentMode string
	MountOptions   *CSIMountOptions
	PerAlloc       bool
}

// CSIMountOptions are the mount options of a CSI volume.
type CSIMountOptions struct {
	FSType     string
	MountFlags []string
}

// Consul names the Consul cluster, namespace and partition of a group or task.
type Consul struct {
	Namespace string
	Cluster   string
	Partition string
}
