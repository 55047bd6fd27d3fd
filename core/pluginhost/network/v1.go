// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	v1 "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// KindV1 is the contract that ConnectV1 speaks.
var KindV1 = plugin.Kind{Name: v1.Kind.Name, Version: v1.Kind.Version}

// ConnectV1 returns the network plugins of a process that serves version 1 of our
// contract.
func ConnectV1(ctx context.Context, conn grpc.ClientConnInterface) ([]Backend, error) {
	networks, err := v1.Connect(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("ask the plugin for its network plugins: %w", err)
	}
	return networks, nil
}
