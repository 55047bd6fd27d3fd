// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volume is the DRAFT of version 1 of the contract between Drover and a
// plugin that offers storage, and of the manual of its author. It owns the interface
// Volume and its types; their wire form is sdk/proto/volume/v1. No host uses it yet:
// it may change in any way until the storage that does is there, and then it is
// released as the other contracts are. Nothing imports it.
//
// # What a volume plugin does
//
// It makes volumes in a storage system and brings them to where tasks use them. The
// model is that of the Container Storage Interface (CSI), so that one plugin can
// carry any CSI driver, and a plugin of its own needs no more than it has. A volume
// passes these states; each step is a call, and each has its reverse:
//
//	            Create              ControllerPublish       NodeStage             NodePublish
//	(nothing) ---------> created ---------------> on a node -----------> staged ------------> published
//	          <---------         <---------------           <-----------        <------------
//	            Delete             ControllerUnpublish      NodeUnstage           NodeUnpublish
//
// Controller calls talk to the storage system and run on any one node; node calls
// run on the node of the task. A plugin lists the steps that it has in
// Info.Capabilities; the host leaves out the others. A plugin for folders of one
// machine has Create, Delete and NodePublish, and nothing in between.
//
// # Repeating calls
//
// Every call may be repeated, with the same arguments, after any failure, from
// another host or another process: the caller may not have seen the answer to the
// first. What is asked for and already so is no error. So:
//
//   - Create and CreateSnapshot go by name: the same name with what fits returns what
//     is there. The same name with what does not fit is AlreadyExists.
//   - Delete, Unpublish and Unstage of what is not there succeed.
//   - Publish and Stage of what is published or staged alike succeed; if it is so in
//     another way (mode, read only, another path) they are AlreadyExists.
//   - A call that fails leaves the volume in the state before, or in one that the
//     repeated call goes on from. Nothing is half mounted without saying so.
//   - A second call for a volume that another is busy with is Aborted; the caller
//     repeats it later.
//
// # The life of the process
//
// It may be ended, killed or replaced at any time while tasks use volumes: a mount
// belongs to the kernel and not to the process. A process starts without knowledge.
// Whoever holds a volume is derived by the servers from their allocs; a plugin keeps
// no claims and counts nothing.
//
// # Topology
//
// Where a volume can be used is said by segments, as {"zone": "a"}. A node says in its
// fingerprint where it is; Create is told where the volume is needed and answers where
// it is reachable from. A volume without topology is reachable from everywhere.
//
// # Secrets
//
// They come with the calls that need them, from the servers' store, are never logged,
// never part of an error's text, and never kept in contexts.
//
// # Errors
//
// They carry a class of sdk/errdefs; see each method. ResourceExhausted: the storage
// system is full, or the node has as many volumes as it can.
package volume
