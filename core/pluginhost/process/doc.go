// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package process runs the process of one plugin. It owns the start and the limits of the
// process, the handshake and the connection over a private socket, the process's output, and
// its end, expected or not. It records the processes, so that after an agent was killed the
// next one finds or ends its plugins. It does not know what a plugin serves, or when one should
// run (package supervise). Only this package and sdk/plugin use go-plugin, and only
// core/pluginhost and packages below it may import this package.
package process
