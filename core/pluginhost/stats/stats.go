// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats is the core's interface to collectors of host statistics. It owns that
// interface and the adapter for the contract (v1.go). It does not own processes or
// when they measure (core/pluginhost does), nor the use of the samples
// (core/agent/stats does).
package stats

import (
	v1 "github.com/drover-project/drover/sdk/stats/v1"
)

// Backend is a collector in one process. Its methods have the semantics of
// sdk/stats/v1.
type Backend = v1.Collector

// The types of the newest contract.
type (
	Info        = v1.Info
	Part        = v1.Part
	Series      = v1.Series
	SeriesKind  = v1.SeriesKind
	Sample      = v1.Sample
	CPU         = v1.CPU
	CPUTimes    = v1.CPUTimes
	Memory      = v1.Memory
	Swap        = v1.Swap
	FileSystem  = v1.FileSystem
	Disk        = v1.Disk
	Network     = v1.Network
	Temperature = v1.Temperature
	Load        = v1.Load
	Value       = v1.Value
	Observed    = v1.Observed

	TaskCollector = v1.TaskCollector
	Task          = v1.Task
)

// MaxBounds is the most bounds of a histogram.
const MaxBounds = v1.MaxBounds

// FeatureTasks is the optional ability to measure tasks.
const FeatureTasks = v1.FeatureTasks

// Has reports whether a backend has an optional ability. The host asks it before it
// makes a call of that ability.
func Has(b Backend, f v1.Feature) bool { return v1.Has(b, f) }

// The kinds of series.
const (
	SeriesUnknown = v1.SeriesUnknown
	Gauge         = v1.Gauge
	Counter       = v1.Counter
	Histogram     = v1.Histogram
)

// KnownFeatures returns the optional abilities of collectors on which the host acts.
func KnownFeatures() []v1.Feature { return v1.KnownFeatures() }
