// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats is version 1 of the contract between Drover and plugins that measure
// the machine, and the manual for their authors. It owns the interface Collector, its
// types and their wire form (hidden). It does not own the resource usage that drivers report
// of their tasks (sdk/driver/v1), nor the discovery, start and supervision of
// plugin processes: that is core/pluginhost. Plugins import it; in core, only
// core/pluginhost/stats may.
//
// # What a collector does
//
// It measures the machine at the requested interval and delivers one Sample each time.
// Info names what it measures: parts that every host has (Part), and series of its own
// (Series), such as the pressure of a cooling loop. Every sample contains every part
// and series that Info names, or a Problem that says why it is missing: "temperatures:
// this machine has no sensors".
//
// Several collectors may run on a node. If two of them measure the same part, the host
// uses the one whose name sorts first. The series of all collectors are published,
// each with its collector's name.
//
// # Counters
//
// Values that grow while the machine runs are reported as totals: seconds of processor
// time, bytes received. The host computes rates and percentages from two samples. So a
// collector keeps no state between samples, several readers do not disturb each other,
// and the replacement of a process leaves no gap.
//
// # Histograms
//
// A series of kind Histogram counts observations by their size, such as the time that
// requests to a disk take: per bucket a total since its source began, and the sum of all.
// The bounds of its buckets are part of Info. Observed helps with counting.
//
// # Tasks
//
// Drivers measure the processors and the memory of their tasks. What they do not measure, a
// collector can: it implements TaskCollector, gets the list of running tasks, and names the
// task in each value of a series with PerTask. The host adds the labels task, task_group,
// job, namespace and alloc_id.
//
// # Labels
//
// On the wire each set of labels is sent once per stream, and values refer to it by number.
// The Go types do not show that; in another language, see Sample.label_sets in the proto
// file. A collector that gives each value its labels is right, too.
//
// # Streams
//
// Each call of Collect opens a separate stream with its own interval: the first sample
// at once, then one per interval, until ctx ends. A collector must not measure while
// no stream is open, and a closed stream must leave no goroutine, timer or open file
// behind. A slow reader must receive fewer samples, never outdated ones: measure when
// the reader is ready, do not queue. A sample must not take longer than its interval;
// skip or bound operations that may hang, such as reading a file system of an
// unreachable server.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time. A new process starts
// without any state: the host calls Collectors, SetConfig and, once there is a
// consumer, Collect. While no process runs, consumers see the last values with their
// time.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method. It is not an error if the
// machine lacks what a collector measures: the sample's Problems say so.
package stats
