// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package process runs the process of one plugin: how it is started and limited, the
// handshake and the connection over a private socket, what it writes, how its loss is
// noticed, and how it ends. It records the processes, so that the next agent finds or ends
// the plugins of an agent that was killed. It does not know what a plugin serves, or when
// one should run (package supervise). Only it and sdk/plugin use go-plugin.
package process
