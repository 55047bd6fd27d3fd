// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package command

import (
	"os"
	"time"
)

// adoptOrphans has nothing to do where only the command itself is ended.
func adoptOrphans() error { return nil }

// interruptAll interrupts the process only: what it has started is not known here.
func interruptAll(p *os.Process) error { return p.Signal(os.Interrupt) }

// endAll has nobody to wait for.
func endAll(time.Duration) {}
