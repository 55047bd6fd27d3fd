// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"cmp"
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
	// Dir is the directory of plugin executables. It need not exist.
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
	// Roots makes root file systems for the tasks of such plugins; nil if the host cannot.
	Roots driver.Roots
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
	// Confine gives each plugin the rights of its kind only, changed by Access, by the name
	// of its file; otherwise plugins have the rights of the agent. Hidden are directories,
	// such as the directory of the agent's state, that restricted plugins cannot read.
	Confine bool
	Access  map[string]confine.Access
	Hidden  []string
	// ProcessLimits change the limits of each plugin's processes, by the name of its
	// file; "*" applies to all others. 0 means the default, and Pids -1 no limit.
	ProcessLimits map[string]confine.Limits
	// OnDemand names plugins, by their files, that without a config block do nothing but serve
	// their instances. Such a plugin without a config block is not started until it is needed.
	OnDemand []string
	// Disabled are plugin names (their file names) that are not launched.
	Disabled []string

	StartTimeout time.Duration // limit for launch and handshake; default 10 s
	// Timing says when processes are checked, restarted and replaced.
	supervise.Timing
	Limits driver.Limits // limits of driver calls; default driver.DefaultLimits

	// RescanInterval is the interval at which Dir is read even without a notification,
	// and SettleTime how long a file must be unchanged to count as complete.
	RescanInterval time.Duration // default 10 s
	SettleTime     time.Duration // default 1 s
	// FetchTimeout and MaxSize limit what Install fetches.
	FetchTimeout time.Duration // default 15 min
	MaxSize      int64         // default 1 GiB
}

func (c *Config) setDefaults() {
	c.Timing.SetDefaults()
	c.StartTimeout = cmp.Or(c.StartTimeout, 10*time.Second)
	c.StatsInterval = cmp.Or(c.StatsInterval, time.Second)
	c.RescanInterval = cmp.Or(c.RescanInterval, 10*time.Second)
	c.SettleTime = cmp.Or(c.SettleTime, time.Second)
	c.FetchTimeout = cmp.Or(c.FetchTimeout, 15*time.Minute)
	c.MaxSize = cmp.Or(c.MaxSize, 1<<30)
	if c.Limits == (driver.Limits{}) {
		c.Limits = driver.DefaultLimits()
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
}
