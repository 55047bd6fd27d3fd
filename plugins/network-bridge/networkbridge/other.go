// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package networkbridge

import (
	"github.com/drover-project/drover/plugins/internal/netspace"
)

// probe says why this machine cannot have networks.
func probe() error { return netspace.Probe() }

func (s settings) neighbours() ([]neighbour, error) { return nil, nil }

func (s settings) attach(*record) error { return probe() }

func (s settings) inspect(*record) error { return probe() }

func (s settings) openPorts(*record, map[string]*record) error { return nil }

func (s settings) closePorts(*record, map[string]*record) error { return nil }

func (s settings) restoreRules(map[string]*record) (bool, error) { return false, nil }

func remove(*record) error { return nil }

func forgetFlows(bool, func(flow) bool) {}
