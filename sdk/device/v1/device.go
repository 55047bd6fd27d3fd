// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Device offers the devices of one kind of hardware. All methods may be called
// concurrently. They return soon after their ctx ends.
type Device interface {
	// Info returns the plugin's name and the schema of its configuration. It does no
	// work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block:
	// a JSON object that was validated against Info().ConfigSchema, with defaults
	// filled in. It is called once before the first Fingerprint and again whenever the
	// block changes. InvalidArgument: the plugin cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports all devices at once when it is called, and again all devices
	// whenever something changes. The plugin closes the channel when ctx ends.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// Reserve returns what a task needs to use devices of one group. It must be
	// idempotent: a second call for the same ids changes nothing more on the machine.
	// A plugin that needs to know the task is a TaskReserver, too, and one that needs to
	// know when the task has ended is a Releaser. NotFound: an id does not exist.
	// FailedPrecondition: a device is unhealthy and cannot be used.
	Reserve(ctx context.Context, ids []string) (*Reservation, error)

	// Stats measures all devices once when it is called and then at every interval.
	// The plugin must not measure while no stream is open. It closes the channel when
	// ctx ends. A slow reader must receive fewer samples, never outdated ones. Every
	// implements all of this. Unimplemented: the devices cannot be measured at all.
	Stats(ctx context.Context, interval time.Duration) (<-chan []GroupStats, error)
}

// TaskReserver is the optional ability to reserve devices for a certain task, with the
// job's own config for them.
type TaskReserver interface {
	// ReserveForTask is called instead of Reserve, with the same meaning and errors: before
	// each start of the task, with the same ids and config until the job changes.
	// Hosts of the first release call Reserve. InvalidArgument: the devices cannot work
	// with the config; the task fails without another try.
	ReserveForTask(ctx context.Context, r Request) (*Reservation, error)
}

// Releaser is the optional ability to free what a reservation took on the machine.
type Releaser interface {
	// Release says that a task no longer uses devices that were reserved for it: it has
	// ended and will not start again, or its reservation failed. It must be idempotent. The
	// host repeats it until it succeeds, also after a restart of the agent, and calls
	// whichever process serves the devices by then. That process may never have heard of
	// the task. Ids that no longer exist are free: nil.
	//
	// The host reserves a device for another task only after its release has
	// succeeded, so a release never concerns a device that another task has. If it
	// has failed for a day, the host logs that and gives up.
	Release(ctx context.Context, h Holder, ids []string) error
}

// Holder is a task that uses devices. AllocID and Task identify it; the same task of a
// new alloc is another one.
type Holder struct {
	Namespace string
	JobID     string
	TaskGroup string
	AllocID   string
	Task      string
}

// Request is a reservation for a task. IDs are instances of one group. Config is a JSON
// object that was validated against Info().TaskConfigSchema, with defaults filled in.
type Request struct {
	Holder Holder
	IDs    []string
	Config []byte
}

// Info describes a device plugin.
type Info struct {
	// Name is the plugin's name in the agent's configuration, such as "nvidia".
	Name         string
	ConfigSchema schema.Schema
	// TaskConfigSchema describes the block config { } within the device block of a job.
	// Only a TaskReserver may have attributes in it. Without attributes, the host refuses
	// tasks with such a block.
	TaskConfigSchema schema.Schema
	// Features are what the plugin announces. Service fills it in.
	Features []Feature
}

// Fingerprint is the set of devices that a plugin found. Problem says why devices are
// missing, such as "libnvidia-ml.so.1 is not installed".
type Fingerprint struct {
	Groups  []Group
	Problem string
}

// Group is a set of devices that jobs ask for by one name. All of them have the Attributes.
type Group struct {
	Vendor     string
	Type       string
	Name       string
	Instances  []Instance
	Attributes map[string]Attribute
}

// Instance is one device.
type Instance struct {
	ID                string
	Healthy           bool
	HealthDescription string // why it is not healthy
	PCIBusID          string // empty if the device is not on a PCI bus
	// Attributes are what this device has in addition to its group, such as the link that
	// it is attached to. An attribute with the same name as an attribute of the group
	// replaces it. Keep serial numbers out of them: the servers compare instances with
	// equal attributes with a job only once, for all nodes. Hosts of the first release do
	// not know the field and see the group's attributes only.
	Attributes map[string]Attribute
	// NUMANode is the number of the NUMA node to which the device is attached; nil if the
	// plugin does not know it. Then the host takes the NUMA node of the PCI bus address.
	NUMANode *int
}

// NUMA returns a node for Instance.NUMANode.
func NUMA(node int) *int { return &node }

// Attribute is a value of one of four types. A number may have a unit: B, kB, KiB, MB,
// MiB, GB, GiB, TB, TiB, their rates per second such as MB/s, kHz, MHz, GHz, mW, W,
// kW, MW or GW. Constraints of jobs convert between units of one dimension.
type Attribute struct {
	Int   *int64
	Float *float64
	Text  *string
	Bool  *bool
	Unit  string
}

// Units lists the units that an Attribute may have.
var Units = []string{
	"", "B", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "B/s", "kB/s", "KiB/s", "MB/s", "MiB/s", "GB/s", "GiB/s", "TB/s", "TiB/s",
	"Hz", "kHz", "MHz", "GHz", "mW", "W", "kW", "MW", "GW",
}

// Int returns an integer attribute with a unit.
func Int(v int64, unit string) Attribute { return Attribute{Int: &v, Unit: unit} }

// Float returns a floating-point attribute with a unit.
func Float(v float64, unit string) Attribute { return Attribute{Float: &v, Unit: unit} }

// Text returns a string attribute.
func Text(v string) Attribute { return Attribute{Text: &v} }

// Bool returns a boolean attribute.
func Bool(v bool) Attribute { return Attribute{Bool: &v} }

// Reservation describes how a task accesses its devices. Paths are absolute.
type Reservation struct {
	Env    map[string]string
	Mounts []Mount
	Nodes  []Node
	// CDIDevices are qualified names of the Container Device Interface, such as
	// "nvidia.com/gpu=0", for drivers whose runtime supports CDI. They are equivalent
	// to Env, Mounts and Nodes, which drivers without CDI use.
	CDIDevices []string
}

// Mount is a path of the machine to mount into the task.
type Mount struct {
	HostPath string
	TaskPath string
	ReadOnly bool
}

// Node is a device node to create inside the task. Permissions is a combination of
// "r", "w" and "m"; the task's cgroup allows the same access.
type Node struct {
	HostPath    string
	TaskPath    string
	Permissions string
}

// GroupStats is one sample of a group; its instances are keyed by id.
type GroupStats struct {
	Vendor    string
	Type      string
	Name      string
	Instances map[string]Stats
}

// Stats is one sample of an instance. Summary names the value that a user wants to see
// first, such as "Memory".
type Stats struct {
	Summary string
	Values  map[string]Value
	Time    time.Time
}

// Value is a measured value. Of is its upper limit if it has one, as in 40 of 80 GiB.
type Value struct {
	Int         *int64
	Float       *float64
	Text        *string
	Bool        *bool
	Of          *float64
	Unit        string
	Description string
}
