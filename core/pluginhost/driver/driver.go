// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is the core's interface to task drivers. It owns that interface, the
// adapters for each protocol (v1.go for our contract, nomad.go for plugins built for
// Nomad), and Proxy, which keeps a driver usable across restarts of its process. It
// does not own processes: core/pluginhost does. core/pluginhost and core/agent import
// it.
package driver

import (
	"context"
	"slices"
	"time"

	v1 "github.com/drover-project/drover/sdk/driver/v1"
)

// Driver runs the tasks of one driver name. Its methods have the semantics of
// sdk/driver/v1, with two differences for a Proxy: WaitTask, TaskStats and TaskEvents
// continue across restarts of the plugin, and tasks are then recovered without the
// caller's help.
type Driver interface {
	Info() Info
	StartTask(ctx context.Context, task *TaskConfig) (*Handle, *NetworkOverride, error)
	RecoverTask(ctx context.Context, handle *Handle) error
	WaitTask(ctx context.Context, taskID string) (ExitResult, error)
	StopTask(ctx context.Context, taskID string, timeout time.Duration, signal string) error
	DestroyTask(ctx context.Context, ref TaskRef, force bool) error
	InspectTask(ctx context.Context, taskID string) (*TaskStatus, error)
	TaskStats(ctx context.Context, interval time.Duration) (<-chan []TaskStats, error)
	SignalTask(ctx context.Context, taskID string, signal string) error
	ExecTask(ctx context.Context, taskID string, opts ExecOptions, stream ExecStream) (ExitResult, error)
	TaskEvents(ctx context.Context) (<-chan TaskEvent, error)
}

// Lister is a Driver that may list its tasks: see sdk/driver/v1. It returns
// Unimplemented if it cannot.
type Lister = v1.Lister

// ProcessMeter is a Driver that may measure single processes: see sdk/driver/v1. It
// returns Unimplemented if it cannot.
type ProcessMeter = v1.ProcessMeter

// Validator is a Driver that may validate configs: see sdk/driver/v1. It returns
// Unimplemented if it cannot.
type Validator = v1.Validator

// Refusal returns the error with which a task is not started because of diagnostics.
func Refusal(found []Diagnostic) error { return v1.Refusal(found) }

// Updater is a Driver that may change the resources of running tasks: see sdk/driver/v1.
// It returns Unimplemented if it cannot.
type Updater = v1.Updater

// Pauser is a Driver that may pause and resume tasks: see sdk/driver/v1. It returns
// Unimplemented if it cannot.
type Pauser = v1.Pauser

// LogReader is a Driver that may read the output of its tasks: see sdk/driver/v1. It returns
// Unimplemented if it cannot.
type LogReader = v1.LogReader

// Networker is a Driver that may make the networks of its tasks: see sdk/driver/v1. It
// returns Unimplemented if it does not.
type Networker = v1.Networker

// Feature is an optional ability of a driver.
type Feature = v1.Feature

// Has reports whether a backend has an optional ability. The host asks it before it
// makes a call of that ability.
func Has(b Backend, f Feature) bool { return v1.Has(b, f) }

// KnownFeatures returns the optional abilities of drivers on which the host acts: all of the
// contract but checkpoints, which no command asks for yet (ADR 0057).
func KnownFeatures() []Feature {
	return slices.DeleteFunc(v1.KnownFeatures(), func(f Feature) bool { return f == v1.FeatureCheckpoint })
}

// MissingExecOptions returns which of opts the driver would ignore: the ExecOption
// constants of sdk/driver/v1.
func MissingExecOptions(c Capabilities, opts ExecOptions) []string {
	var missing []string
	for _, o := range []struct {
		name string
		used bool
	}{{v1.ExecUser, opts.User != ""}, {v1.ExecDirectory, opts.Directory != ""}, {v1.ExecEnvironment, len(opts.Env) > 0}} {
		if o.used && !slices.Contains(c.ExecOptions, o.name) {
			missing = append(missing, o.name)
		}
	}
	return missing
}

// Backend is a driver in one plugin process, with additional methods for the host.
type Backend interface {
	Driver
	SetConfig(ctx context.Context, config []byte) error
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)
}

// The types of the newest contract. Adapters of older and foreign contracts convert to
// them.
type (
	Info             = v1.Info
	Capabilities     = v1.Capabilities
	FSIsolation      = v1.FSIsolation
	NetworkMode      = v1.NetworkMode
	Health           = v1.Health
	Fingerprint      = v1.Fingerprint
	TaskConfig       = v1.TaskConfig
	TaskDraft        = v1.TaskDraft
	Diagnostic       = v1.Diagnostic
	Severity         = v1.Severity
	TaskRef          = v1.TaskRef
	Resources        = v1.Resources
	HostCgroup       = v1.HostCgroup
	Cgroup           = v1.Cgroup
	Mount            = v1.Mount
	Device           = v1.Device
	Port             = v1.Port
	NetworkIsolation = v1.NetworkIsolation
	NetworkRequest   = v1.NetworkRequest
	DNSConfig        = v1.DNSConfig
	Secrets          = v1.Secrets
	LogConfig        = v1.LogConfig
	LogQuery         = v1.LogQuery
	LogPiece         = v1.LogPiece
	LogStream        = v1.LogStream
	Handle           = v1.Handle
	NetworkOverride  = v1.NetworkOverride
	ExitResult       = v1.ExitResult
	TaskState        = v1.TaskState
	TaskStatus       = v1.TaskStatus
	TaskStats        = v1.TaskStats
	CPUStats         = v1.CPUStats
	MemoryStats      = v1.MemoryStats
	IOStats          = v1.IOStats
	PidStats         = v1.PidStats
	TaskEvent        = v1.TaskEvent
	Progress         = v1.Progress
	ExecOptions      = v1.ExecOptions
	ExecStream       = v1.ExecStream
	TerminalSize     = v1.TerminalSize
)

// UnitBytes is the unit of a Progress in data.
const UnitBytes = v1.UnitBytes

// IOMeasures names the values of IOStats.
var IOMeasures = v1.IOMeasures

// FeatureValidateTask: the driver is a Validator.
const FeatureValidateTask = v1.FeatureValidateTask

// FeatureUpdateResources: the driver is an Updater.
const FeatureUpdateResources = v1.FeatureUpdateResources

// FeaturePause: the driver is a Pauser.
const FeaturePause = v1.FeaturePause

// FeatureReadLogs: the driver is a LogReader.
const FeatureReadLogs = v1.FeatureReadLogs

// FeatureNetworks: the driver is a Networker.
const FeatureNetworks = v1.FeatureNetworks

// The networks that a task can join: see sdk/driver/v1.
const (
	NetworkNone  = v1.NetworkNone
	NetworkGroup = v1.NetworkGroup
)

// The cgroups, health and task states, so that users need only one import.
const (
	HostCgroupBare    = v1.HostCgroupBare
	HostCgroupLimited = v1.HostCgroupLimited

	SeverityError   = v1.SeverityError
	SeverityWarning = v1.SeverityWarning

	HealthUndetected = v1.HealthUndetected
	HealthUnhealthy  = v1.HealthUnhealthy
	HealthHealthy    = v1.HealthHealthy

	TaskRunning = v1.TaskRunning
	TaskExited  = v1.TaskExited
	TaskUnknown = v1.TaskUnknown
)
