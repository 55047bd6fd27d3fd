// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package control owns the framework of the level-triggered controllers and the Loops
// that run them. A Controller declares the tables that it reads and the commands that it
// proposes, and is held to that. It maps a change to the keys of objects, and decides
// (purely) what to do about one object now and when to decide again. While this server
// is the leader, Loops runs each controller with one goroutine, one queue of dirty keys
// without duplicates and one timer heap, regardless of the number of objects. A panic or
// error in a decision delays only that key, by a backoff.
//
// Each package below holds one controller. core/server constructs them; nothing else
// imports them.
package control
