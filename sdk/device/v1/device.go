// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Device offers devices of one kind of hardware. All methods may be called at
// the same time from many goroutines. They return soon after their ctx ends.
type Device interface {
	// Info says what the plugin is called and which configuration it accepts.
	// It does no work and always answers the same.
	Info() Info

	// SetConfig hands over the agent's plugin "NAME" { config { } } block: a JSON
	// object that Info().ConfigSchema has accepted, with defaults filled in. It
	// is called once before the first Fingerprint and again when the block
	// changes. InvalidArgument: it cannot work as it is.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports all devices: once at once, then whenever something
	// changes, each time all of them. The plugin closes the channel when ctx ends.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// Reserve says how a task gets at devices of one group. It changes nothing
	// on the machine that a second call for the same ids would not repeat, and
	// there is no call that gives them back. NotFound: an id that is not there.
	// FailedPrecondition: a device that cannot be used, as it is unhealthy.
	Reserve(ctx context.Context, ids []string) (*Reservation, error)

	// Stats measures all devices every interval, the first time at once. Nothing
	// is measured while nobody listens. The plugin closes the channel when ctx
	// ends; a slow reader gets fewer samples, never old ones: Every does all that.
	// Unimplemented: the devices cannot be measured, now or later.
	Stats(ctx context.Context, interval time.Duration) (<-chan []GroupStats, error)
}

// Info describes a device plugin.
type Info struct {
	// Name is what the agent's configuration calls it, as "nvidia".
	Name         string
	ConfigSchema schema.Schema
}

// Fingerprint is what a plugin found. Problem says why there is nothing, or not
// all: "libnvidia-ml.so.1 is not installed".
type Fingerprint struct {
	Groups  []Group
	Problem string
}

// Group is devices that are alike.
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
	PCIBusID          string // "" where it sits on no such bus
}

// Attribute is a value of one of the four types, with the unit of a number: one
// of B, kB, KiB, MB, MiB, GB, GiB, TB, TiB, their rates per second as MB/s, kHz,
// MHz, GHz, mW, W, kW, MW, GW, or none. Constraints of jobs compare across units.
type Attribute struct {
	Int   *int64
	Float *float64
	Text  *string
	Bool  *bool
	Unit  string
}

// Units are those that an Attribute may have.
var Units = []string{
	"", "B", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "B/s", "kB/s", "KiB/s", "MB/s", "MiB/s", "GB/s", "GiB/s", "TB/s", "TiB/s",
	"Hz", "kHz", "MHz", "GHz", "mW", "W", "kW", "MW", "GW",
}

// Int returns a whole number with a unit.
func Int(v int64, unit string) Attribute { return Attribute{Int: &v, Unit: unit} }

// Float returns a number with a unit.
func Float(v float64, unit string) Attribute { return Attribute{Float: &v, Unit: unit} }

// Text returns a text.
func Text(v string) Attribute { return Attribute{Text: &v} }

// Bool returns a truth value.
func Bool(v bool) Attribute { return Attribute{Bool: &v} }

// Reservation is what a task needs to use devices. Paths are absolute.
type Reservation struct {
	Env    map[string]string
	Mounts []Mount
	Nodes  []Node
	// CDIDevices are qualified names of the Container Device Interface, as
	// "nvidia.com/gpu=0", for drivers whose runtime knows them. They say the same
	// as Env, Mounts and Nodes do, which a driver without CDI uses.
	CDIDevices []string
}

// Mount is a path of the machine to show inside the task.
type Mount struct {
	HostPath string
	TaskPath string
	ReadOnly bool
}

// Node is a device node to show inside the task; Permissions are of "rwm" and are
// also what the task's cgroup allows.
type Node struct {
	HostPath    string
	TaskPath    string
	Permissions string
}

// GroupStats is one sample of a group, by instance id.
type GroupStats struct {
	Vendor    string
	Type      string
	Name      string
	Instances map[string]Stats
}

// Stats is one sample of an instance. Summary names the value that a user looks
// at first, as "Memory".
type Stats struct {
	Summary string
	Values  map[string]Value
	Time    time.Time
}

// Value is a measured value; Of is what it is at most, where there is a limit, as
// in 40 of 80 GiB.
type Value struct {
	Int         *int64
	Float       *float64
	Text        *string
	Bool        *bool
	Of          *float64
	Unit        string
	Description string
}
