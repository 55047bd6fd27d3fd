// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is the core's own view of a task driver. It owns the interface
// that the agent runs tasks through, the adapters that bring each version of the
// plugin contract under it (v1.go; nomad.go will hold the foreign protocol), and
// Proxy, which keeps a driver usable across restarts of its process. It does not
// own processes: that is core/pluginhost. core/pluginhost and core/agent import it.
package driver

import (
	"context"
	"time"

	v1 "github.com/drover-project/drover/sdk/driver/v1"
)

// Driver runs tasks of one driver name. The methods mean what those of
// sdk/driver/v1 mean, with two differences for what a Proxy hands out: WaitTask,
// TaskStats and TaskEvents carry on over a restart of the plugin, and tasks are
// recovered without the caller's help after one.
type Driver interface {
	Info() Info
	StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error)
	RecoverTask(ctx context.Context, handle *Handle) error
	WaitTask(ctx context.Context, taskID string) (ExitResult, error)
	StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error
	DestroyTask(ctx context.Context, taskID string, force bool) error
	InspectTask(ctx context.Context, taskID string) (*TaskStatus, error)
	TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error)
	SignalTask(ctx context.Context, taskID string, signal string) error
	ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error)
	TaskEvents(ctx context.Context) (<-chan TaskEvent, error)
}

// Lister is a Driver that may say which tasks it has: see sdk/driver/v1. It answers
// Unimplemented where it cannot.
type Lister = v1.Lister

// Backend is a driver in one plugin process, with what only the host calls.
type Backend interface {
	Driver
	SetConfig(ctx context.Context, config []byte) error
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
}

// The values are those of the newest contract. Adapters of older and foreign
// contracts convert to them; a newer contract moves them.
type (
	Info             = v1.Info
	Capabilities     = v1.Capabilities
	FSIsolation      = v1.FSIsolation
	NetworkMode      = v1.NetworkMode
	Health           = v1.Health
	Fingerprint      = v1.Fingerprint
	TaskConfig       = v1.TaskConfig
	Resources        = v1.Resources
	Mount            = v1.Mount
	Device           = v1.Device
	Port             = v1.Port
	NetworkIsolation = v1.NetworkIsolation
	DNSConfig        = v1.DNSConfig
	LogConfig        = v1.LogConfig
	Handle           = v1.Handle
	NetworkOverride  = v1.NetworkOverride
	ExitResult       = v1.ExitResult
	TaskState        = v1.TaskState
	TaskStatus       = v1.TaskStatus
	TaskStats        = v1.TaskStats
	CPUStats         = v1.CPUStats
	MemoryStats      = v1.MemoryStats
	PidStats         = v1.PidStats
	TaskEvent        = v1.TaskEvent
	ExecOptions      = v1.ExecOptions
	ExecStream       = v1.ExecStream
	TerminalSize     = v1.TerminalSize
)

// The healths and task states, named here so that users need one import.
const (
	HealthUndetected = v1.HealthUndetected
	HealthUnhealthy  = v1.HealthUnhealthy
	HealthHealthy    = v1.HealthHealthy

	TaskRunning = v1.TaskRunning
	TaskExited  = v1.TaskExited
	TaskUnknown = v1.TaskUnknown
)
