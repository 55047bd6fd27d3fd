// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package control owns the kernel of the level-triggered controllers and their
// supervisor. A Controller says what it reads and writes, which objects a
// change concerns, and decides (purely) what to do about one object now and
// when to look again. The Supervisor runs each controller while this server
// leads: one goroutine, one queue of dirty keys without duplicates and one
// timer heap per controller, whatever the number of objects. A panic or an
// error in a decision costs that key a backoff, nothing else.
//
// The packages below hold one controller each. core/server constructs them;
// nothing else imports them.
package control
