// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package kinds offers what plugin processes serve, kind by kind (drivers, devices,
// collectors, networks, volumes, registries): who owns a name, what its newest fingerprint
// is, and how a name passes from one process to the next. It does not start processes
// (package process), and it does not decide when one should run (package supervise).
//
// There is one generic kind. To add a kind, write one file with
//
//   - a slot, the place of one name: what to do when a process serves it and when that
//     process is lost. It embeds plain, which has the answers of a kind that needs
//     nothing else, and overrides what differs: see the interface slot.
//   - a spec: the kind's noun, its contracts, how to connect to a process, and how to
//     read fingerprints, if it has any.
//   - methods for callers, which read the slots while they hold the kind's lock.
//
// and list the kind in New and, for inspection, in Served.
package kinds
