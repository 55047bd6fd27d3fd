// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package stats is version 1 of the contract between Drover and a plugin that
// measures the machine, and the manual of its author. It owns the interface
// Collector, its types and their wire form (hidden). It does not own the use of
// resources by tasks, which drivers tell (sdk/driver/v1), nor how a plugin process
// is found, started and watched: that is core/pluginhost. Plugins import it, and
// so does core/pluginhost/stats, which alone may in core.
//
// # What a collector does
//
// It measures what it can say of the machine every interval that it is asked for,
// and delivers one Sample each time. Info names what that is: parts of the machine
// that every host has (Part), and series of its own (Series), as the pressure of a
// cooling loop. A part or a series that Info names is in every sample, or a Problem
// of the sample says why it is not: "temperatures: this machine has no sensors".
//
// Several collectors may run on a node. Of a part that two of them measure, the
// host uses the one whose name comes first; series of all are told side by side,
// each with the collector's name.
//
// # Counters
//
// What grows while the machine runs is told as it is: seconds of processor time,
// bytes received. The host makes rates and percents of two samples. So a collector
// keeps nothing between samples, several readers do not disturb each other, and a
// process that was replaced is no gap.
//
// # Streams
//
// Each call of Collect is a stream of its own with its own interval: the first
// sample at once, then one each interval, until ctx ends. Nothing is measured while
// nobody listens: no goroutine, timer or open file may stay behind a stream that has
// ended. A slow reader gets fewer samples, never old ones: measure when the reader
// is ready, do not queue. One sample must not take longer than its interval; what
// may hang, as a file system of a dead server, is left out or bounded.
//
// # The life of the process
//
// It may be ended, killed or replaced at any time. A process starts without
// knowledge: the host calls Collectors, SetConfig and, once somebody wants to
// know, Collect. While it is away, readers see the newest values with their time.
//
// # Errors
//
// They carry a class of sdk/errdefs; see each method. A machine that lacks what a
// collector measures is no error: the sample's Problems say so.
package stats
