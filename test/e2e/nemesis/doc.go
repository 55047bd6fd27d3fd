// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nemesis breaks clusters of real servers and nodes while clients use them, and
// checks what clients and tasks were promised: histories of requests are linearizable, an
// acknowledged write stays, all servers have the same state, healthy tasks run on and
// their exit codes are right. It owns only tests.
package nemesis
