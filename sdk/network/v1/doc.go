// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package network is version 1 of the contract between Drover and plugins that make
// networks for allocs, and the manual for their authors. It owns the interface Network, its
// types and their wire form (hidden). It does not own the discovery, start and supervision
// of plugin processes: that is core/pluginhost. Plugins import it; in core, only
// core/pluginhost/network may.
//
// # What a network plugin does
//
// It offers networks by name (Fingerprint): a job asks for one with the mode of its group's
// network block, such as "bridge" or "cni/NAME". Before the first task of an alloc starts,
// the plugin makes the alloc's network (Create): a namespace with an interface, an address,
// and port maps from the machine. After the last task has ended it removes all of it
// (Destroy). Tasks join the namespace by its path; the plugin does not know them.
//
// # The life of a network
//
// A network belongs to an alloc and not to a process: it works on while the plugin and the
// agent are dead, and another process of the plugin knows it. So a plugin writes down what
// it is about to make before it makes it, in its working directory, which stays over
// restarts and reboots.
//
// The host calls Create again whenever it does not know whether the call before has
// succeeded, and before each start of a task. For a network that works, Create changes
// nothing and answers the same. For one that is damaged, or gone because the machine was
// started anew, it makes what is missing, with the same addresses if they are free.
//
// Destroy removes what is there, however little that is, and is repeated until it succeeds.
// List names every alloc of which anything is left, so that the host can destroy what
// belongs to no alloc.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time, also within Create. A new
// process starts without any state: the host calls Plugins, SetConfig and then Fingerprint.
// Streams stay open until their ctx ends.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method. A plugin that cannot work on this
// machine reports a Fingerprint without networks and a Problem that says what is missing.
package network
