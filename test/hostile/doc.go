// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package hostile tests what a server does with whatever nodes and clients may send:
// values of every type of the wire in which anything may be missing, huge or
// nonsense. The server must answer, and go on to work for others.
package hostile
