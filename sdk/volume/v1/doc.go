// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package volume is the DRAFT of version 1 of the contract between Drover and storage
// plugins, and of the manual for their authors. It owns the interface Volume and its
// types; their wire form is sdk/proto/volume/v1. No host uses it yet: it may change in
// any way until Drover has storage, and is then released like the other contracts.
// Nothing imports it.
//
// # What a volume plugin does
//
// It creates volumes in a storage system and makes them available where tasks use
// them. The model is that of the Container Storage Interface (CSI), so that one plugin
// can wrap any CSI driver, while a simpler plugin implements only what it needs. A
// volume passes through these states; each step is a call, and each has a reverse:
//
//	            Create              ControllerPublish       NodeStage             NodePublish
//	(nothing) ---------> created ---------------> on a node -----------> staged ------------> published
//	          <---------         <---------------           <-----------        <------------
//	            Delete             ControllerUnpublish      NodeUnstage           NodeUnpublish
//
// Controller calls talk to the storage system and may run on any node; node calls run
// on the node of the task. A plugin lists its steps in Info.Capabilities, and the host
// skips the others. A plugin for folders of one machine has only Create, Delete and
// NodePublish.
//
// # Repeating calls
//
// Every call is idempotent. It may be repeated with the same arguments after any
// failure, from another host or another process, since the caller may have missed the
// first answer. It is not an error if the requested state already holds. Therefore:
//
//   - Create and CreateSnapshot identify objects by name: if an object of the name
//     exists and is compatible with the request, they return it; if it is not
//     compatible, they return AlreadyExists.
//   - Delete, Unpublish and Unstage succeed if the object does not exist.
//   - Publish and Stage succeed if the volume is already published or staged in the
//     same way; if the way differs (mode, read only, path), they return AlreadyExists.
//   - A failed call leaves the volume in its previous state, or in one from which the
//     repeated call continues. A volume must never be left half mounted silently.
//   - A call for a volume on which another call is working returns Aborted; the
//     caller repeats it later.
//
// # The life of the process
//
// The process may be ended, killed or replaced at any time while tasks use volumes: a
// mount belongs to the kernel and not to the process. A new process starts without any
// state. The servers derive from their allocs who uses a volume; a plugin keeps no
// claims and no counts.
//
// # Topology
//
// Topology says where a volume can be used, as segments such as {"zone": "a"}. A node
// reports its location in its fingerprint. Create receives the locations where the
// volume is needed and returns those from which it can be reached. A volume without
// topology can be reached from everywhere.
//
// # Secrets
//
// Secrets are passed with the calls that need them, from the servers' store. They must
// never be logged, appear in the text of an error, or be stored in contexts.
//
// # Errors
//
// Errors carry a class of sdk/errdefs; see each method. ResourceExhausted: the storage
// system is full, or the node has reached its maximum number of volumes.
package volume
