// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package mounts lists the mounts of the machine, and finds and unmounts what is mounted below
// the folder of an alloc or a task. For that it walks through the folder instead of reading the
// list, which has at least one mount for each task of the node. Packages of the node side import
// it, and the daemon, which removes the data of a development agent.
package mounts
