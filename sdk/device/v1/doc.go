// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package device is version 1 of the contract between Drover and plugins that offer
// devices of the machine to tasks, and the manual for their authors. It owns the
// interface Device, its types and their wire form (hidden). It does not own the
// discovery, start and supervision of plugin processes: that is core/pluginhost.
// Plugins import it; in core, only core/pluginhost/device may.
//
// # What a device plugin does
//
// It finds devices and describes them (Fingerprint), describes how a task accesses the
// devices that the scheduler assigned to it (Reserve), and measures them (Stats). It
// does not choose devices and keeps no reservations: the servers derive from the
// allocs which task has which device, so a plugin that crashes loses nothing. A plugin that
// must prepare a device for a certain task, or clean up after it, implements TaskReserver
// and Releaser.
//
// # Groups
//
// Identical devices form a group with a name of the form vendor/type/name, such as
// nvidia/gpu/NVIDIA H100. A job asks for "gpu", "nvidia/gpu" or the full name. All
// instances of a group have the group's attributes; an instance may have some of its own
// in addition, such as its link or its firmware, by which jobs can choose among the
// devices of a group. Devices of another model belong in another group. Instance ids must
// be stable across restarts and reboots, like the UUID of a GPU.
//
// An instance says to which NUMA node it is attached, or where on the PCI bus it is, so
// that jobs can have it on the node of their cores (the block numa of their resources).
//
// A device that several tasks may use at the same time is offered as one instance per
// share, each with an id of its own, such as GPU-6b0a::0 and GPU-6b0a::1: the scheduler
// gives each instance to one task. Offer the first shares of all devices before the
// second ones, because it takes the first that are free, and tell with an attribute how
// many tasks share a device. Reserve gives the task the device of its share, once.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time while tasks use its
// devices; the tasks keep their devices. A new process starts without any state: the
// host calls Plugins, SetConfig and then Fingerprint. Streams stay open until their
// ctx ends.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method. A plugin whose hardware or
// library is absent reports a Fingerprint with no groups and a Problem that says what
// is missing. The host then ends the process and starts it again at intervals.
package device
