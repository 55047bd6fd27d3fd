// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"context"
	"fmt"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/sdk/plugin"
	v1 "github.com/drover-project/drover/sdk/volume/v1"
)

// KindV1 is the contract that ConnectV1 speaks.
var KindV1 = plugin.Kind{Name: v1.Kind.Name, Version: v1.Kind.Version}

// ConnectV1 returns the storage plugins of a process that serves version 1 of our contract.
func ConnectV1(ctx context.Context, conn grpc.ClientConnInterface) ([]Backend, error) {
	volumes, err := v1.Connect(ctx, conn)
	if err != nil {
		return nil, fmt.Errorf("ask the plugin for its storage plugins: %w", err)
	}
	return volumes, nil
}
