// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package device is version 1 of the contract between Drover and a plugin that
// offers devices of the machine to tasks, and the manual of its author. It owns
// the interface Device, its types and their wire form (hidden). It does not own
// how a plugin process is found, started and watched: that is core/pluginhost.
// Plugins import it, and so does core/pluginhost/device, which alone may in core.
//
// # What a device plugin does
//
// It finds devices and says what they are (Fingerprint), says how a task gets at
// those that the scheduler gave it (Reserve), and measures them (Stats). It does
// not choose devices, and it keeps no reservations: which task has which device is
// derived from the allocs, so a plugin that crashes forgets nothing.
//
// # Groups
//
// Devices that are alike form a group, named vendor/type/name as in
// nvidia/gpu/NVIDIA H100. A job asks for "gpu", "nvidia/gpu" or the full name. All
// instances of a group have the group's attributes; what differs makes another
// group. Instance ids are stable over restarts and reboots, as a GPU's UUID.
//
// # The life of the process
//
// It may be ended, killed or replaced at any time while tasks use its devices;
// that takes no device away. A process starts without knowledge: the host calls
// Plugins, SetConfig and then Fingerprint. Streams go on until their ctx ends.
//
// # Errors
//
// They carry a class of sdk/errdefs; see each method. A plugin whose hardware or
// library is absent answers Fingerprint with no groups and a Problem that says
// what is missing. It is then not kept running, but asked again at intervals.
package device
