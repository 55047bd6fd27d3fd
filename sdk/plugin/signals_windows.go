// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build windows

package plugin

import "os"

func agentGoneSignals() []os.Signal { return []os.Signal{os.Interrupt} }
