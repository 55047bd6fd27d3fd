// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package logpipe

import (
	"context"
	"net"
	"os/exec"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Collector cannot work here: there are no FIFOs.
type Collector struct{}

// NewCollector returns a collector whose every call says so.
func NewCollector(time.Duration) *Collector { return &Collector{} }

// Serve says that it cannot.
func (*Collector) Serve(context.Context, net.Listener) error { return errNoFIFO() }

// Listen says that it cannot.
func Listen(string) (net.Listener, error) { return nil, errNoFIFO() }

func errNoFIFO() error {
	return errdefs.Unimplementedf("this system has no FIFOs, so plugins built for Nomad cannot hand over logs here")
}

func detach(*exec.Cmd) {}
