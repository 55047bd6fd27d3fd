// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volume is version 1 of the contract between Drover and storage plugins, and the
// manual for their authors. It owns the interface Volume with its optional abilities, its
// types and their wire form (hidden). It does not own the discovery, start and supervision
// of plugin processes: that is core/pluginhost. Plugins import it; in core, only
// core/pluginhost/volume may.
//
// # What a storage plugin does
//
// It makes volumes in a storage system and brings them to where tasks use them. Each step
// is a call, and each has a reverse:
//
//	          Create             Attach             Stage             Publish
//	(nothing) ------> a volume ---------> at a node ------> prepared ---------> at a path
//	          <------          <---------           <------           <---------
//	          Delete             Detach            Unstage           Unpublish
//
// Create and Attach talk to the storage system and may run on any node (the controller's
// part). Stage and Publish run on the node of the task (the node's part). Only Publish and
// its reverse are required: they bring a volume to a path. A plugin for folders of one
// machine has Create and Publish. A host skips the steps that a plugin does not have.
//
// # What a plugin can do
//
// An optional ability is an interface that a plugin implements in addition to Volume; see
// features.go. Where that depends on what the plugin finds, as for an adapter to storage
// drivers of others, its fingerprint lists the capabilities that it has here and now. A
// host makes a call only if the fingerprint lists its capability.
//
// # Repeating calls
//
// Every call may be repeated with the same arguments after any failure, by another host or
// to another process of the plugin, because the caller may have missed the first answer.
// That the requested state holds already is no error:
//
//   - Create and CreateSnapshot know what they made by its name. What exists under the name
//     and fits the request is returned; what does not fit is AlreadyExists.
//   - Delete, Detach, Unstage and Unpublish succeed where there is nothing.
//   - Attach, Stage and Publish succeed where it is done already in the same way; where it
//     is done in another way (access, read only, path), they return AlreadyExists.
//   - After a failed call the volume is as before, or in a state from which both the
//     repeated call and the reverse call go on. Nothing half done is called done.
//
// Calls for one volume take effect one after the other. A plugin lets a call wait for the
// one before, and answers Aborted with ReasonPending if that does not end in time. What a
// call began and nobody waits for any more is such a call, too.
//
// # What is on the machine
//
// A mount belongs to the kernel and not to a process: it stays while the plugin and the
// agent are dead. So a plugin writes down what it is about to stage or publish before it
// begins, in its working directory, and Published names all of it until the reverse calls
// have succeeded. By that the host finds what belongs to no task.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time. A new process starts without
// any state: the host calls Plugins, SetConfig and then Fingerprint. A plugin keeps no
// claims and counts no users; the host knows which tasks use a volume.
//
// # Topology
//
// Topology says from where a volume can be used, as segments such as {"zone": "a"}. The
// fingerprint has the location of the node. Create receives the locations where the volume
// is needed, and answers with those from which it can be used. None means everywhere.
//
// # Secrets
//
// Secrets come with the calls that need them. They are never logged, never stored, and
// never in the text of an error or in a context. A type of their own hides them when they
// are printed.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method. Where a class does not say enough,
// they carry one of the reasons of errors.go. A call returns soon after its ctx ends.
package volume
