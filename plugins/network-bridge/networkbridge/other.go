// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package networkbridge

import "github.com/drover-project/drover/plugins/internal/netspace"

// probe says why this machine cannot have networks.
func probe() error { return netspace.Probe() }

func (s settings) attach(*record) error { return probe() }

func detach(*record) error { return nil }

func (s settings) inspect(*record) error { return probe() }

func (s settings) writeRules(map[string]*record) error { return nil }

func forgetConnections(*record) {}
