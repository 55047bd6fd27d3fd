// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Collector measures the machine. All methods may be called at the same time from
// many goroutines. They return soon after their ctx ends.
type Collector interface {
	// Info says what the collector is called, what it measures and which
	// configuration it accepts. It does no work and always answers the same.
	Info() Info

	// SetConfig hands over the agent's plugin "NAME" { config { } } block: a JSON
	// object that Info().ConfigSchema has accepted, with defaults filled in. It
	// is called once before the first Collect and again when the block changes;
	// streams that are open go on under the new one. InvalidArgument: it cannot
	// work as it is.
	SetConfig(ctx context.Context, config []byte) error

	// Collect measures every interval, the first time at once. The collector
	// closes the channel when ctx ends, and only then. InvalidArgument: an
	// interval that is not above zero. Unimplemented: it can measure nothing on
	// this kind of machine, now or later; it is then not asked again.
	Collect(ctx context.Context, interval time.Duration) (<-chan Sample, error)
}

// Info describes a collector.
type Info struct {
	// Name is what the agent's configuration calls it, as "host".
	Name         string
	ConfigSchema schema.Schema
	Parts        []Part
	Series       []Series
}

// Part is something that every machine has; it names the field of Sample.
type Part string

// The parts.
const (
	PartCPU          Part = "cpu"
	PartMemory       Part = "memory"
	PartSwap         Part = "swap"
	PartFileSystems  Part = "file_systems"
	PartDisks        Part = "disks"
	PartNetworks     Part = "networks"
	PartTemperatures Part = "temperatures"
	PartLoad         Part = "load"
	PartUptime       Part = "uptime"
)

// Parts are all of them.
var Parts = []Part{PartCPU, PartMemory, PartSwap, PartFileSystems, PartDisks, PartNetworks, PartTemperatures, PartLoad, PartUptime}

// SeriesKind says how the values of a series are to be read.
type SeriesKind int

// The kinds of series. A counter only grows; when its source starts anew it may
// begin again at zero.
const (
	Gauge SeriesKind = iota + 1
	Counter
)

// Series is something that only this collector measures. Name is of lower case
// letters, digits, "_" and ".", as "coolant.pressure". Labels name what tells its
// values apart, each of lower case letters, digits and "_".
type Series struct {
	Name        string
	Unit        string // one of Units
	Description string
	Kind        SeriesKind
	Labels      []string
}

// Units are those that a Series may have: base units, so that readers need not
// convert, and "" for plain numbers. A ratio is from 0 to 1.
var Units = []string{"", "seconds", "bytes", "bytes/second", "hertz", "celsius", "percent", "ratio", "watts", "joules", "volts", "amperes", "pascals", "rpm", "metres/second"}

// Sample is one measurement. A field whose part Info does not name is zero.
type Sample struct {
	Time         time.Time
	CPU          *CPU
	Memory       *Memory
	Swap         *Swap
	FileSystems  []FileSystem
	Disks        []Disk
	Networks     []Network
	Temperatures []Temperature
	Load         *Load
	Uptime       time.Duration // since the machine started
	Values       []Value
	// Problems say what is missing and why, each beginning with the name of the
	// part or series: "temperatures: this machine has no sensors".
	Problems []string
}

// CPU is the time that the processors have spent since the machine started.
type CPU struct {
	Total CPUTimes
	Cores []CPUTimes
}

// CPUTimes are seconds, apart from each other: their sum is the time that has
// passed for the core. Name is "cpu0" or, for all cores, "cpu".
type CPUTimes struct {
	Name    string
	User    float64 // guests included
	Nice    float64
	System  float64
	Idle    float64
	IOWait  float64
	IRQ     float64
	SoftIRQ float64
	Steal   float64
}

// Sum is the time that has passed for the core.
func (t CPUTimes) Sum() float64 {
	return t.User + t.Nice + t.System + t.Idle + t.IOWait + t.IRQ + t.SoftIRQ + t.Steal
}

// Memory is in bytes. Available is what could be given to programs without
// swapping; Used is Total less Available unless the system says otherwise.
type Memory struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
	Buffers   uint64
	Cached    uint64
	Shared    uint64
}

// Swap is in bytes; In and Out since the machine started. All is zero on a machine
// without swap.
type Swap struct {
	Total uint64
	Used  uint64
	Free  uint64
	In    uint64
	Out   uint64
}

// FileSystem is one that is mounted. Sizes are in bytes; Available is what users
// other than root may still write. Inodes is 0 where there is no limit.
type FileSystem struct {
	Device     string
	Mountpoint string
	Type       string
	ReadOnly   bool
	Size       uint64
	Used       uint64
	Available  uint64
	Inodes     uint64
	InodesUsed uint64
}

// Disk is a block device: counts since the machine started. BusyTime is how long
// it had something to do; ReadTime and WriteTime count requests that overlap twice.
type Disk struct {
	Device       string
	Reads        uint64
	Writes       uint64
	ReadBytes    uint64
	WrittenBytes uint64
	ReadTime     time.Duration
	WriteTime    time.Duration
	BusyTime     time.Duration
	InFlight     uint64 // requests now
}

// Network is a network interface: counts since it came up.
type Network struct {
	Interface       string
	ReceivedBytes   uint64
	ReceivedPackets uint64
	ReceivedErrors  uint64
	ReceivedDrops   uint64
	SentBytes       uint64
	SentPackets     uint64
	SentErrors      uint64
	SentDrops       uint64
}

// Temperature is what a sensor says; High and Critical are its limits, if it has any.
type Temperature struct {
	Sensor   string
	Celsius  float64
	High     *float64
	Critical *float64
}

// Load is how many processes want to run, over one, five and fifteen minutes.
type Load struct {
	One     float64
	Five    float64
	Fifteen float64
}

// Value is one value of a series. Labels has a value for each label of the series
// and no others.
type Value struct {
	Series string
	Labels map[string]string
	Value  float64
}
