// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats is the core's own view of a collector of the machine. It owns the
// interface that the host reads collectors through, and the adapter that brings
// the contract under it (v1.go). It does not own processes, nor when anything is
// measured (core/pluginhost does), nor what is made of it (core/agent/stats does).
package stats

import (
	v1 "github.com/drover-project/drover/sdk/stats/v1"
)

// Backend is a collector in one process. The methods mean what those of
// sdk/stats/v1 mean.
type Backend = v1.Collector

// The values are those of the newest contract.
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
)

// The kinds of series.
const (
	Gauge   = v1.Gauge
	Counter = v1.Counter
)
