// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package driverqemu

import (
	"net"
	"os"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// unavailable says why the driver does not run on this system.
const unavailable = "the driver qemu runs on Linux only"

var errUnavailable = errdefs.Unimplementedf(unavailable)

const hiddenArgument = "__drover-qemu"

func launchMain() error { return nil }

type root struct{}

func (root) close() {}

func openRoots([]string) ([]root, error) { return nil, errUnavailable }

func openBeneath([]root, string, bool) (*os.File, string, error) { return nil, "", errUnavailable }

func connect(string, string, time.Duration) (net.Conn, error) { return nil, errUnavailable }

func (*monitor) hand(*os.File, string) error { return errUnavailable }

func kvmProblem() string { return unavailable }
