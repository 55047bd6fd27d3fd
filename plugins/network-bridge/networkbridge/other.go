// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package networkbridge

import (
	"os"

	"github.com/drover-project/drover/sdk/errdefs"
)

// probe says why this machine cannot have networks.
func probe() error {
	return errdefs.FailedPreconditionf("networks of allocs are made on Linux only; use mode \"host\"")
}

func lockFile(*os.File) error { return nil }

func isNamespace(string) bool { return false }

func makeNamespace(string) error { return probe() }

func removeNamespace(string) error { return nil }

func bringLoopbackUp(string) error { return probe() }

func (s settings) attach(*record) error { return probe() }

func detach(*record) error { return nil }

func (s settings) inspect(*record) error { return probe() }

func (s settings) writeRules(map[string]*record) error { return nil }

func forgetConnections(*record) {}
