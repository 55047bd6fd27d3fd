// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Info describes a driver.
type Info struct {
	// Name is what a job file says in driver = "NAME".
	Name         string
	Capabilities Capabilities
	// ConfigSchema is that of the agent's plugin "NAME" { config { } } block,
	// TaskConfigSchema that of a task's config block.
	ConfigSchema     schema.Schema
	TaskConfigSchema schema.Schema
}

// FSIsolation says what a task sees as its root file system.
type FSIsolation string

// The kinds of file system isolation.
const (
	FSIsolationNone   FSIsolation = "none"   // the machine's own
	FSIsolationChroot FSIsolation = "chroot" // a root built in the task's directory
	FSIsolationImage  FSIsolation = "image"  // an image
)

// NetworkMode is a mode of a group's network that a driver can join.
type NetworkMode string

// The network modes.
const (
	NetworkHost  NetworkMode = "host"
	NetworkGroup NetworkMode = "group"
	NetworkTask  NetworkMode = "task"
	NetworkNone  NetworkMode = "none"
)

// Capabilities says what a driver can do. What it cannot do, the agent refuses
// before it calls the driver.
type Capabilities struct {
	SendSignals  bool
	Exec         bool
	FSIsolation  FSIsolation
	NetworkModes []NetworkMode
	// MountConfigs: the driver carries out TaskConfig.Mounts.
	MountConfigs bool
	// DisableLogCollection: the driver writes no log files for its tasks.
	DisableLogCollection bool
	// DynamicUsers: tasks may run as users that exist in no password file.
	DynamicUsers bool
	// OnDemand: the driver has nothing to follow while it has no tasks, so its
	// process may be ended then. It is started again at the next call, which waits
	// for that (some tens of milliseconds), and from time to time to be
	// fingerprinted.
	OnDemand bool
	// Ignores lists what of a task the driver does not act on although its
	// contract has it: the Ignores constants. Who submits a job that asks for one
	// of them is warned. Words that the servers do not know are skipped.
	Ignores []string
}

// What a driver may list in Capabilities.Ignores, in the words of a job file.
const (
	IgnoresUser       = "user"
	IgnoresKillSignal = "kill_signal"
	IgnoresCores      = "resources.cores"
	IgnoresMemoryMax  = "resources.memory_max"
	IgnoresDevices    = "resources.device"
	IgnoresDNS        = "network.dns" // TaskConfig.DNS
)

// Health is what a driver thinks of itself.
type Health string

// The healths. An undetected driver is not offered to the scheduler at all.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is what a driver found on the machine. Attributes are full names,
// as "driver.raw_exec": "1", and take the place of those of the report before.
type Fingerprint struct {
	Attributes        map[string]string
	Health            Health
	HealthDescription string
}

// TaskConfig is everything a driver needs to start one task. Paths are absolute
// and on the machine; all interpolation is done.
type TaskConfig struct {
	// ID names this run of the task on this node and nothing else ever: a
	// restart has a new one. Drivers must not take it apart.
	ID        string
	Name      string
	Namespace string
	JobID     string
	JobName   string
	TaskGroup string
	AllocID   string
	AllocName string
	NodeID    string
	NodeName  string

	// DriverConfig is the task's config block as a JSON object that the
	// driver's TaskConfigSchema has accepted, with defaults filled in.
	// schema.Unmarshal reads it into a struct.
	DriverConfig []byte

	Env map[string]string
	// DeviceEnv are those of Env that device plugins set, as
	// NVIDIA_VISIBLE_DEVICES: unlike a variable that the job itself sets, they say
	// which devices the task really has.
	DeviceEnv map[string]string
	// User is the user to run as; empty means the driver's default.
	User string

	Resources Resources
	Mounts    []Mount
	Devices   []Device
	// CDIDevices are the task's devices as names of the Container Device
	// Interface, as "nvidia.com/gpu=0". A driver whose runtime resolves them may
	// use them; Env, Mounts and Devices are there for one that does not.
	CDIDevices []string
	// Ports are all ports of the group, for drivers that map them.
	Ports   []Port
	Network *NetworkIsolation
	DNS     *DNSConfig

	// AllocDir is the alloc's directory and TaskDir the task's own in it; "alloc" in
	// AllocDir is the folder that the tasks share.
	AllocDir string
	TaskDir  string

	Logs LogConfig

	// KillSignal and KillTimeout are those of the job; StopTask is given them
	// again and counts.
	KillSignal  string
	KillTimeout time.Duration
}

// Resources is what the scheduler gave to a task.
type Resources struct {
	CPUMHz      int64   // the share of the cpu, in MHz
	CPUPercent  float64 // the same as a percentage of the whole node
	Cores       []int   // the cores reserved for this task alone
	MemoryMB    int64
	MemoryMaxMB int64 // 0: no more than MemoryMB
}

// Mount is a path of the machine to show inside the task.
type Mount struct {
	HostPath        string
	TaskPath        string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
}

// Device is a device file to show inside the task.
type Device struct {
	HostPath    string
	TaskPath    string
	Permissions string // of "rwm"
}

// Port is one port of the group. To is the port inside the task, 0 for the same.
type Port struct {
	Label  string
	Value  int
	To     int
	HostIP string
}

// NetworkIsolation is the network namespace that a task joins.
type NetworkIsolation struct {
	Mode     NetworkMode
	Path     string
	Labels   map[string]string
	Hostname string
}

// DNSConfig is what a task's resolver uses.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// LogConfig says where a task's output goes. The driver writes StdoutPath.0,
// StdoutPath.1 and so on (as .../server.stdout.0), starts the next file when one
// has MaxFileSizeMB, keeps the last MaxFiles, goes on with the highest number
// after a restart, and creates files so that a link that the task placed there is
// not followed. A task never blocks or dies because its output cannot be kept.
type LogConfig struct {
	StdoutPath    string
	StderrPath    string
	MaxFiles      int
	MaxFileSizeMB int
	// Disabled: the output is thrown away and no file is written.
	Disabled bool
}

// Handle is how a driver finds a running task again. State is the driver's own
// and small; the agent keeps it on disk. Version is the driver's number for the
// form of State: a newer driver must read the handles of older ones.
type Handle struct {
	TaskID  string
	Version int
	State   []byte
}

// NetworkOverride is the address of a task that the driver itself gave a network.
type NetworkOverride struct {
	IP      string
	PortMap map[string]int
	// AutoAdvertise: services use this address unless they ask for another.
	AutoAdvertise bool
}

// ExitResult is how a task or a command ended. A task that a signal ended has
// its number in Signal and 128 more than that in ExitCode. Err says what the
// driver cannot put in numbers, as "exit code unknown: ..."; it is empty for an
// ordinary end, and if it is set the task counts as failed.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string
}

// Successful reports whether the end counts as success.
func (r ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && !r.OOMKilled && r.Err == ""
}

// TaskState says whether a task runs.
type TaskState string

// The task states.
const (
	TaskRunning TaskState = "running"
	TaskExited  TaskState = "exited"
	TaskUnknown TaskState = "unknown"
)

// TaskStatus is how a task is. ExitedAt and Exit are set once it has ended.
type TaskStatus struct {
	ID         string
	State      TaskState
	StartedAt  time.Time
	ExitedAt   time.Time
	Exit       *ExitResult
	Attributes map[string]string // for the user: pid, container id and so on
}

// The names that Measured may have.
var (
	CPUMeasures    = []string{"Percent", "System Mode", "User Mode", "Total Ticks", "Throttled Periods", "Throttled Time"}
	MemoryMeasures = []string{"RSS", "Cache", "Swap", "Mapped File", "Usage", "Max Usage", "Kernel Usage", "Kernel Max Usage"}
)

// TaskStats is one sample of one task. A value that the driver does not measure
// is absent from Measured and zero. Percent is of one core, so 200 is two cores.
type TaskStats struct {
	TaskID string
	Time   time.Time
	CPU    CPUStats
	Memory MemoryStats
	// Pids has the use by process id where a driver can tell it apart.
	Pids map[string]PidStats
}

// CPUStats is use of the cpu since the sample before.
type CPUStats struct {
	Percent          float64
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64 // MHz used
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Measured         []string
}

// MemoryStats is use of memory in bytes.
type MemoryStats struct {
	RSS            uint64
	Cache          uint64
	Swap           uint64
	MappedFile     uint64
	Usage          uint64
	MaxUsage       uint64
	KernelUsage    uint64
	KernelMaxUsage uint64
	Measured       []string
}

// PidStats is what one process of a task uses.
type PidStats struct {
	CPU    CPUStats
	Memory MemoryStats
}

// TaskEvent is news of a task for its user.
type TaskEvent struct {
	TaskID      string
	Time        time.Time
	Message     string
	Annotations map[string]string
}
