// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package mounts finds and unmounts what is mounted below the folder of an alloc or a task. It
// walks through the folder instead of reading the kernel's list of all mounts, which has at
// least one for each task of the node. Packages of the node side import it, and the daemon, which
// removes the data of a development agent.
package mounts
