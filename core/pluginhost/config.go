// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/confine"
	"github.com/drover-project/drover/core/pluginhost/driver"
	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/core/pluginhost/stats"
	"github.com/drover-project/drover/core/pluginhost/supervise"
	"github.com/drover-project/drover/sdk/plugin"
)

// Config configures a Host. Zero durations and counts mean the defaults.
type Config struct {
	// Dir is where plugin executables lie. A directory that is absent has none.
	Dir string
	// StateDir is the host's own directory, for sockets; it is created with mode 0700.
	StateDir string
	// Store may be nil: plugins are then not reattached after a restart.
	Store  process.Store
	Logger hclog.Logger
	// DriverConfig contains the agent's plugin "NAME" { config { } } blocks, by the
	// name of a driver, a device plugin or a file.
	DriverConfig map[string]map[string]any
	// Env is passed to plugins in addition to the variables that all get (see
	// baseEnv), as "NAME=value".
	Env []string
	// Host is how the host introduces itself to plugins. New sets its Features.
	Host plugin.Host
	// LogCollector is the command that reads the logs of plugins built for Nomad; the
	// socket's directory is appended as its last argument. Without it such plugins
	// cannot start tasks with logs.
	LogCollector []string
	// Topology returns the topology of the machine's cores for plugins built for
	// Nomad; it may be nil, and may block until the topology is known.
	Topology func() *model.Topology
	// Tied ends the processes of plugins when this process ends, even if it is killed (on
	// Linux only). It is for hosts that try plugins, and excludes Confine.
	Tied bool
	// Args are the command lines of plugins' processes, by the name of the file.
	Args map[string][]string
	// StatsInterval is the interval at which collectors measure while there is a
	// consumer; default 1 s.
	StatsInterval time.Duration
	// Tasks returns the node's running tasks, for collectors that measure tasks; nil means
	// that there are none.
	Tasks func() []stats.Task
	// Confine gives each plugin the rights of its kind only, changed by Access, by the
	// name of its file; otherwise plugins have the rights of the agent. Hidden are
	// directories, such as that of the agent's state, that restricted plugins cannot
	// read.
	Confine bool
	Access  map[string]confine.Access
	Hidden  []string
	// ProcessLimits change the limits of each plugin's processes, by the name of its
	// file; "*" applies to all others. 0 means the default, and Pids -1 no limit.
	ProcessLimits map[string]confine.Limits
	// Disabled are plugin names (their file names) that are not launched.
	Disabled []string

	StartTimeout time.Duration // for launch and handshake; default 10 s
	PingInterval time.Duration // between pings; default 10 s
	PingTimeout  time.Duration // for the answer; default 5 s
	PingFailures int           // consecutive failures until a plugin counts as hung; default 3
	BackoffMin   time.Duration // before the first restart; default 250 ms
	BackoffMax   time.Duration // default 1 min
	// A plugin that fails CrashLoopFailures times (default 5) within CrashLoopWindow
	// (default 5 min) is started only every BackoffMax, until a process has run for
	// Steady (default 1 min), which also resets the backoff.
	CrashLoopFailures int
	CrashLoopWindow   time.Duration
	Steady            time.Duration
	// AbsentInterval is the interval of checks on a machine that lacks what a plugin
	// needs; default 1 min.
	AbsentInterval time.Duration
	Limits         driver.Limits // of driver calls; default driver.DefaultLimits

	// RescanInterval is the interval at which Dir is read even without a notification,
	// and SettleTime how long a file must be unchanged to count as complete.
	RescanInterval time.Duration // default 10 s
	SettleTime     time.Duration // default 1 s
	// UpgradeTimeout limits the time for a new version to become ready, and
	// RetireTimeout how long the old one continues for calls in progress.
	UpgradeTimeout time.Duration // default 1 min
	RetireTimeout  time.Duration // default 5 min
	// A version that crashes ProbationCrashes times within Probation after its
	// takeover is rolled back.
	Probation        time.Duration // default 1 min
	ProbationCrashes int           // default 3
	// FetchTimeout and MaxSize limit what Install fetches.
	FetchTimeout time.Duration // default 15 min
	MaxSize      int64         // default 1 GiB
}

func (c *Config) setDefaults() {
	set := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	set(&c.StartTimeout, 10*time.Second)
	set(&c.StatsInterval, time.Second)
	set(&c.PingInterval, 10*time.Second)
	set(&c.PingTimeout, 5*time.Second)
	set(&c.BackoffMin, 250*time.Millisecond)
	set(&c.BackoffMax, time.Minute)
	set(&c.CrashLoopWindow, 5*time.Minute)
	set(&c.Steady, time.Minute)
	set(&c.AbsentInterval, time.Minute)
	set(&c.RescanInterval, 10*time.Second)
	set(&c.SettleTime, time.Second)
	set(&c.UpgradeTimeout, time.Minute)
	set(&c.RetireTimeout, 5*time.Minute)
	set(&c.Probation, time.Minute)
	set(&c.FetchTimeout, 15*time.Minute)
	if c.ProbationCrashes == 0 {
		c.ProbationCrashes = 3
	}
	if c.MaxSize == 0 {
		c.MaxSize = 1 << 30
	}
	if c.PingFailures == 0 {
		c.PingFailures = 3
	}
	if c.CrashLoopFailures == 0 {
		c.CrashLoopFailures = 5
	}
	if c.Limits == (driver.Limits{}) {
		c.Limits = driver.DefaultLimits()
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
}

func (c *Config) timing() supervise.Timing {
	return supervise.Timing{
		Pings:      process.Pings{Interval: c.PingInterval, Timeout: c.PingTimeout, Failures: c.PingFailures},
		BackoffMin: c.BackoffMin, BackoffMax: c.BackoffMax,
		CrashLoopFailures: c.CrashLoopFailures, CrashLoopWindow: c.CrashLoopWindow, Steady: c.Steady,
		AbsentInterval: c.AbsentInterval, UpgradeTimeout: c.UpgradeTimeout, RetireTimeout: c.RetireTimeout,
		Probation: c.Probation, ProbationCrashes: c.ProbationCrashes,
	}
}
