// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package hostile tests a server with arbitrary messages of nodes and clients:
// values of every wire type in which anything may be missing, huge or invalid. The
// server must answer, and keep working for others.
package hostile
