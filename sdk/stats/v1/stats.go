// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"context"
	"slices"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Collector measures the machine. All methods may be called concurrently. They return
// soon after their ctx ends.
type Collector interface {
	// Info returns the collector's name, what it measures and the schema of its
	// configuration. It does no work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block:
	// a JSON object that was validated against Info().ConfigSchema, with defaults
	// filled in. It is called once before the first Collect and again whenever the
	// block changes; open streams continue with the new configuration.
	// InvalidArgument: the collector cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Collect measures once when it is called and then at every interval. The
	// collector closes the channel when ctx ends, and only then. InvalidArgument:
	// interval is not positive. Unimplemented: the collector can never measure
	// anything on this kind of machine; it is not asked again.
	Collect(ctx context.Context, interval time.Duration) (<-chan Sample, error)
}

// TaskCollector is the optional ability to measure tasks: it measures what drivers do not,
// such as their network connections, their use of a device, or how long they wait for a
// disk.
type TaskCollector interface {
	// SetTasks passes all tasks that run on the node. They replace the previous list; an
	// empty list means that no task runs. It is called before the first Collect in each
	// process and again whenever a task starts or ends while there is a consumer. It
	// returns without measuring. It must be idempotent. Values of series with PerTask name
	// a task of the newest list; the host drops values of other tasks.
	SetTasks(ctx context.Context, tasks []Task) error
}

// Task is a running task of the node.
type Task struct {
	// Values name the task by its ID. It stays the same when the task is started again.
	ID        string
	Namespace string
	JobID     string
	TaskGroup string
	AllocID   string
	Name      string
	Driver    string
	DriverID  string // the driver's name for this run of the task; new with each start
}

// Info describes a collector.
type Info struct {
	// Name is the collector's name in the agent's configuration, such as "host".
	Name         string
	ConfigSchema schema.Schema
	Parts        []Part
	Series       []Series
	// Features are what the collector's plugin announces. Service fills it in.
	Features []Feature
}

// Part is something that every machine has. It names a field of Sample.
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

// Parts lists all parts.
var Parts = []Part{PartCPU, PartMemory, PartSwap, PartFileSystems, PartDisks, PartNetworks, PartTemperatures, PartLoad, PartUptime}

// SeriesKind says how the values of a series are to be interpreted.
type SeriesKind int

// The kinds of series. A counter only grows; it may restart from zero when its source
// restarts. A histogram counts observations by their size, and each of its counts is a
// counter. SeriesUnknown is a kind that is newer than this side: its values are shown
// as they are, and nothing is computed from them.
const (
	SeriesUnknown SeriesKind = iota
	Gauge
	Counter
	Histogram
)

// Series is a measurement that only this collector has. Name consists of lower case
// letters, digits, "_" and ".", such as "coolant.pressure". Labels are the names of
// the labels that distinguish its values; each consists of lower case letters, digits
// and "_".
type Series struct {
	Name        string
	Unit        string // one of Units
	Description string
	Kind        SeriesKind
	Labels      []string
	// Bounds are the upper limits of a histogram's buckets, ascending, in the unit of the
	// series: at most MaxBounds. An observation counts in the first bucket whose limit is not
	// below it; a last bucket, without a limit, has the rest.
	Bounds []float64
	// PerTask says that each value belongs to a task: Value.Task. It needs a TaskCollector.
	// The host adds labels for the task, its alloc, group, job and namespace, so Labels
	// does not name them.
	PerTask bool
}

// MaxBounds is the most bounds of a histogram.
const MaxBounds = 100

// Units lists the units that a Series may have: base units, so that consumers need not
// convert, and "" for plain numbers. A ratio is between 0 and 1.
var Units = []string{"", "seconds", "bytes", "bytes/second", "hertz", "celsius", "percent", "ratio", "watts", "joules", "volts", "amperes", "pascals", "rpm", "metres/second"}

// Sample is one measurement. Fields of parts that Info does not name are zero.
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
	// Problems say what is missing and why. Each begins with the name of the part or
	// series: "temperatures: this machine has no sensors".
	Problems []string
}

// CPU is the time that the processors have spent since the machine started.
type CPU struct {
	Total CPUTimes
	Cores []CPUTimes
}

// CPUTimes are times in seconds that do not overlap: their sum is the time that has
// passed for the core. Name is "cpu0", or "cpu" for all cores together.
type CPUTimes struct {
	Name    string
	User    float64 // includes guests
	Nice    float64
	System  float64
	Idle    float64
	IOWait  float64
	IRQ     float64
	SoftIRQ float64
	Steal   float64
}

// Sum returns the time that has passed for the core, in seconds.
func (t CPUTimes) Sum() float64 {
	return t.User + t.Nice + t.System + t.Idle + t.IOWait + t.IRQ + t.SoftIRQ + t.Steal
}

// Memory is in bytes. Available is the memory that programs could get without
// swapping. Used is Total minus Available unless the system reports otherwise.
type Memory struct {
	Total     uint64
	Available uint64
	Used      uint64
	Free      uint64
	Buffers   uint64
	Cached    uint64
	Shared    uint64
}

// Swap is in bytes. In and Out count since the machine started. All fields are zero on
// a machine without swap.
type Swap struct {
	Total uint64
	Used  uint64
	Free  uint64
	In    uint64
	Out   uint64
}

// FileSystem is a mounted file system. Sizes are in bytes. Available is what users
// other than root may still write. Inodes is 0 if there is no limit.
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

// Disk is a block device. Its values count since the machine started. BusyTime is the
// time during which it had requests in flight; ReadTime and WriteTime are sums over
// requests, so overlapping requests count twice.
type Disk struct {
	Device       string
	Reads        uint64
	Writes       uint64
	ReadBytes    uint64
	WrittenBytes uint64
	ReadTime     time.Duration
	WriteTime    time.Duration
	BusyTime     time.Duration
	InFlight     uint64 // requests in flight now
}

// Network is a network interface. Its values count since the interface came up.
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

// Temperature is the reading of a sensor. High and Critical are its limits, if it has
// any.
type Temperature struct {
	Sensor   string
	Celsius  float64
	High     *float64
	Critical *float64
}

// Load is the load average over one, five and fifteen minutes.
type Load struct {
	One     float64
	Five    float64
	Fifteen float64
}

// Value is one value of a series. Labels has a value for each label of the series, and
// no others. Several samples may share the map: nobody changes it.
type Value struct {
	Series string
	Labels map[string]string
	Task   string // the id of its task, for a series with PerTask
	Value  float64
	// Observed is the value of a histogram. The field Value is then not read.
	Observed *Observed
}

// Observed is the value of a histogram: the observations since its source began. Counts has
// one count per bucket, len(Bounds)+1 in all; a count does not include the buckets before
// it.
type Observed struct {
	Counts []uint64
	Sum    float64 // sum of all observations
}

// NewObserved returns a histogram value with the bounds and without observations.
func NewObserved(bounds []float64) *Observed { return &Observed{Counts: make([]uint64, len(bounds)+1)} }

// Add counts an observation. It uses the bounds that NewObserved got.
func (o *Observed) Add(bounds []float64, v float64) {
	i, _ := slices.BinarySearch(bounds, v)
	o.Counts[i]++
	o.Sum += v
}

// Copy returns a copy, for a sample that must no longer change.
func (o *Observed) Copy() *Observed { return &Observed{Counts: slices.Clone(o.Counts), Sum: o.Sum} }

// Count returns the number of all observations.
func (o *Observed) Count() uint64 {
	n := uint64(0)
	for _, c := range o.Counts {
		n += c
	}
	return n
}
