// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux

package networkcni

import (
	"github.com/drover-project/drover/plugins/internal/netspace"
	network "github.com/drover-project/drover/sdk/network/v1"
)

func hasInterface(string, *network.Attachment) error { return netspace.Probe() }
