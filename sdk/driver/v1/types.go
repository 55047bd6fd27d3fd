// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// Info describes a driver.
type Info struct {
	// Name is the driver's name in a job file: driver = "NAME".
	Name         string
	Capabilities Capabilities
	// ConfigSchema is the schema of the agent's plugin "NAME" { config { } } block,
	// TaskConfigSchema the schema of a task's config block.
	ConfigSchema     schema.Schema
	TaskConfigSchema schema.Schema
	// Features are what the driver's plugin announces. Service fills it in.
	Features []Feature
}

// FSIsolation says what a task sees as its root file system.
type FSIsolation string

// The kinds of file system isolation. A host refuses a driver with one that it does not
// know, since it cannot prepare the files of its tasks.
const (
	FSIsolationNone   FSIsolation = "none"   // the file system of the machine
	FSIsolationChroot FSIsolation = "chroot" // a root file system that is built in the task's directory
	FSIsolationImage  FSIsolation = "image"  // a container image
)

// NetworkMode is a network mode of a group that a driver supports.
type NetworkMode string

// The network modes. A host skips those that it does not know.
const (
	NetworkHost  NetworkMode = "host"
	NetworkGroup NetworkMode = "group"
	NetworkTask  NetworkMode = "task"
	NetworkNone  NetworkMode = "none"
)

// Capabilities says what a driver supports. The agent refuses everything else before
// it calls the driver.
type Capabilities struct {
	SendSignals  bool
	Exec         bool
	FSIsolation  FSIsolation
	NetworkModes []NetworkMode
	// MountConfigs means that the driver handles TaskConfig.Mounts.
	MountConfigs bool
	// DisableLogCollection means that the driver writes no log files for its tasks.
	DisableLogCollection bool
	// DefaultUser is the user of tasks that name none; empty means the agent's own.
	// The agent makes the task's user the owner of the task's folder and its secrets.
	DefaultUser string
	// UnknownUser means that tasks reach their folders by path as a user that only the
	// driver knows. The agent then leaves the folders open to every user.
	UnknownUser bool
	// DynamicUsers means that tasks may run as users without an entry in a password
	// file.
	DynamicUsers bool
	// OnDemand means that the process has nothing to watch while it has no tasks, so
	// the host may end it then. The host starts it again at the next call, which waits
	// for the start (some tens of milliseconds), and at intervals for a fingerprint.
	OnDemand bool
	// SecretEnv means that the driver acts on TaskConfig.SecretEnv. The agent puts the
	// secrets of other drivers' tasks into Env.
	SecretEnv bool
	// HostCgroup makes the host create a cgroup for each task.
	HostCgroup HostCgroup
	// ExecOptions lists the options of ExecTask on which the driver acts: the ExecOption
	// constants. The agent refuses commands that need another.
	ExecOptions []string
	// Ignores lists the features of a task on which the driver does not act although
	// its contract has them: the Ignores constants. Users are warned when their job
	// uses one. Servers skip values that they do not know.
	Ignores []string
}

// Values for Capabilities.Ignores, in the words of a job file.
const (
	IgnoresUser       = "user"
	IgnoresKillSignal = "kill_signal"
	IgnoresCores      = "resources.cores"
	IgnoresMemoryMax  = "resources.memory_max"
	IgnoresDevices    = "resources.device"
	IgnoresDNS        = "network.dns" // TaskConfig.DNS
	// IgnoresSELinux: Mount.SELinuxLabel.
	IgnoresSELinux = "volume_mount.selinux_label"
)

// Values for Capabilities.ExecOptions.
const (
	ExecUser        = "user"
	ExecDirectory   = "directory"
	ExecEnvironment = "environment"
)

// Health is a driver's own view of its health.
type Health string

// The health states. A driver that is undetected is not offered to the scheduler. A
// host treats a state that it does not know as unhealthy, and says so.
const (
	HealthUndetected Health = "undetected"
	HealthUnhealthy  Health = "unhealthy"
	HealthHealthy    Health = "healthy"
)

// Fingerprint is what a driver found on the machine. Attributes have full names, as in
// "driver.raw_exec": "1", and replace the attributes of the previous report.
type Fingerprint struct {
	Attributes        map[string]string
	Health            Health
	HealthDescription string
}

// TaskConfig is everything that a driver needs to start one task. Paths are absolute
// paths on the machine; interpolation is complete.
type TaskConfig struct {
	// ID identifies this run of the task on this node and is never reused: a restart
	// has a new one. Drivers must not parse it.
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

	// DriverConfig is the task's config block: a JSON object that was validated
	// against the driver's TaskConfigSchema, with defaults filled in. schema.Unmarshal
	// decodes it into a struct.
	DriverConfig []byte

	// Env is the environment of the task, without SecretEnv.
	Env map[string]string
	// SecretEnv is the part of the environment whose values are secrets: see Secrets. It is
	// empty for drivers without Capabilities.SecretEnv, and from older hosts: Env then has
	// all.
	SecretEnv Secrets
	// DeviceEnv is the part of Env that device plugins set, such as
	// NVIDIA_VISIBLE_DEVICES. Unlike a variable that the job sets, it says which
	// devices the task really has.
	DeviceEnv map[string]string
	// User is the user to run as; empty means the driver's default.
	User string
	// DynamicUID is the user and group id to run as. The node has given it to the
	// alloc, it may be in no password file, and User is empty. 0 means that there is
	// none; drivers without DynamicUsers never get one.
	DynamicUID int

	Resources Resources
	// Cgroup is what the host has made for Capabilities.HostCgroup; nil where this machine
	// cannot have one, and from older hosts.
	Cgroup  *Cgroup
	Mounts  []Mount
	Devices []Device
	// CDIDevices are the task's devices as names of the Container Device Interface,
	// such as "nvidia.com/gpu=0". A driver whose runtime supports CDI may use them;
	// all others use Env, Mounts and Devices.
	CDIDevices []string
	// Ports are all ports of the group, for drivers that map them.
	Ports   []Port
	Network *NetworkIsolation
	DNS     *DNSConfig

	// AllocDir is the alloc's directory and TaskDir the task's directory in it. The
	// folder "alloc" in AllocDir is shared by the tasks.
	AllocDir string
	TaskDir  string

	Logs LogConfig

	// KillSignal and KillTimeout are the job's settings. StopTask receives them again;
	// its arguments take precedence.
	KillSignal  string
	KillTimeout time.Duration
}

// Ref names the task for DestroyTask.
func (t *TaskConfig) Ref() TaskRef {
	return TaskRef{ID: t.ID, AllocDir: t.AllocDir, TaskDir: t.TaskDir}
}

// TaskRef names a task by its id and the paths of its TaskConfig. The paths are empty
// if the caller does not know them: it found the task with ListTasks, or is a host from
// before they were sent.
type TaskRef struct {
	ID       string
	AllocDir string
	TaskDir  string
}

// Resources are the resources that the scheduler assigned to a task.
type Resources struct {
	CPUMHz      int64   // share of the cpu, in MHz
	CPUPercent  float64 // the same as a percentage of the whole node
	Cores       []int   // cores that are reserved for this task alone
	MemoryMB    int64
	MemoryMaxMB int64 // 0 means MemoryMB
	// SharedCores are, for a task without Cores, the cores that no task has reserved. The task
	// should run on these only. None means that the host knows of no reserved ones.
	SharedCores []int
}

// RunsOn returns the cores on which a task with these resources should run; none means all.
func (r Resources) RunsOn() []int {
	if len(r.Cores) > 0 {
		return r.Cores
	}
	return r.SharedCores
}

// Mount is a path of the machine to mount into the task.
type Mount struct {
	HostPath        string
	TaskPath        string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
}

// Device is a device file to create inside the task.
type Device struct {
	HostPath    string
	TaskPath    string
	Permissions string // combination of "r", "w" and "m"
}

// Port is one port of the group. To is the port inside the task; 0 means the same
// port.
type Port struct {
	Label  string
	Value  int
	To     int
	HostIP string
}

// NetworkIsolation is the network namespace that a task joins.
type NetworkIsolation struct {
	Mode   NetworkMode
	Path   string            // such as "/run/netns/ID"
	Labels map[string]string // labels of the driver that made it: see Networker
	// Hostname is the name of the host that the task sees; empty means the machine's.
	// Address is the address of the group in the namespace, for the hosts file of the task;
	// empty if it is not known.
	Hostname string
	Address  string
}

// DNSConfig is the configuration of a task's resolver.
type DNSConfig struct {
	Servers  []string
	Searches []string
	Options  []string
}

// LogConfig says where a task's output goes. The driver writes to the files
// StdoutPath.0, StdoutPath.1 and so on (such as .../server.stdout.0). It starts the
// next file when one has reached MaxFileSizeMB, keeps the last MaxFiles, and continues
// with the highest number after a restart. It must not follow a link that the task
// created in place of a file. A task must never block or end because its output cannot
// be stored. A driver that is a LogReader creates the files before StartTask returns: that
// a started task has none means that only the daemon has its output.
type LogConfig struct {
	StdoutPath    string
	StderrPath    string
	MaxFiles      int
	MaxFileSizeMB int
	// Disabled means that the output is discarded and no file is written.
	Disabled bool
}

// Handle is the data by which a driver finds a running task again. State is opaque to
// the agent, which stores it on disk, and should be small. Version is the driver's
// version of the format of State: a newer driver must be able to read handles of older
// versions.
type Handle struct {
	TaskID  string
	Version int
	State   []byte
}

// NetworkOverride is the address of a task whose network the driver created itself.
type NetworkOverride struct {
	IP      string
	PortMap map[string]int
	// AutoAdvertise means that services use this address unless they specify another.
	AutoAdvertise bool
}

// ExitResult says how a task or a command ended. If a signal ended it, Signal is the
// number of the signal and ExitCode is 128 plus that number. Err is set if the driver
// cannot express the result in numbers, such as "exit code unknown: ..."; the task
// then counts as failed.
type ExitResult struct {
	ExitCode  int
	Signal    int
	OOMKilled bool
	Err       string
}

// Successful reports whether the task or command succeeded.
func (r ExitResult) Successful() bool {
	return r.ExitCode == 0 && r.Signal == 0 && !r.OOMKilled && r.Err == ""
}

// TaskState says whether a task runs.
type TaskState string

// The task states. A host treats a state that it does not know as TaskUnknown.
const (
	TaskRunning TaskState = "running"
	TaskExited  TaskState = "exited"
	TaskUnknown TaskState = "unknown"
)

// TaskStatus is the status of a task. ExitedAt and Exit are set once it has ended.
type TaskStatus struct {
	ID    string
	State TaskState
	// Paused means that the state is TaskRunning and the task is suspended: see Pauser.
	Paused     bool
	StartedAt  time.Time
	ExitedAt   time.Time
	Exit       *ExitResult
	Attributes map[string]string // information for the user, such as the pid or the container id
}

// The names of values that Measured may contain.
var (
	CPUMeasures    = []string{"Percent", "System Mode", "User Mode", "Total Ticks", "Throttled Periods", "Throttled Time"}
	MemoryMeasures = []string{"RSS", "Cache", "Swap", "Mapped File", "Usage", "Max Usage", "Kernel Usage", "Kernel Max Usage"}
	IOMeasures     = []string{"Read Bytes", "Written Bytes", "Reads", "Writes"}
)

// TaskStats is one sample of one task. A value that the driver does not measure is
// zero and not listed in Measured. Percent is relative to one core, so 200 means two
// cores.
type TaskStats struct {
	TaskID string
	Time   time.Time
	CPU    CPUStats
	Memory MemoryStats
	IO     IOStats
	// Processes is the number of processes of the task, or of threads if the driver's
	// runtime counts only those; 0 if it is not measured.
	Processes uint64
	// Pids has the usage per process id, if the driver can distinguish processes.
	// A ProcessMeter need not fill it.
	Pids map[string]PidStats
}

// IOStats is the input and output of a task on storage since the task started. A value
// never decreases while the task runs. What the page cache answers is not counted.
type IOStats struct {
	ReadBytes    uint64
	WrittenBytes uint64
	Reads        uint64 // operations
	Writes       uint64 // operations
	Measured     []string
}

// CPUStats is the usage of the cpu since the previous sample.
type CPUStats struct {
	Percent          float64
	SystemMode       float64
	UserMode         float64
	TotalTicks       float64 // MHz used
	ThrottledPeriods uint64
	ThrottledTime    uint64
	Measured         []string
}

// MemoryStats is the usage of memory in bytes.
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

// PidStats is the resource usage of one process of a task.
type PidStats struct {
	CPU    CPUStats
	Memory MemoryStats
}

// TaskEvent is an event of a task, for its user.
type TaskEvent struct {
	TaskID      string
	Time        time.Time
	Message     string
	Annotations map[string]string
	// Progress, if set, says how far the start of the task has come. An event that has only
	// a Progress is not kept as an event of the task, and old hosts do not get it.
	Progress *Progress
}
