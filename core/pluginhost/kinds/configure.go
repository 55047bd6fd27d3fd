// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// configLimit limits SetConfig and the first answers of a plugin.
const configLimit = 30 * time.Second

// configureBlock passes a block to the plugin after validating it against the plugin's
// schema.
func configureBlock(ctx context.Context, name string, accepts schema.Schema, config map[string]any, set func(context.Context, []byte) error) error {
	full, err := accepts.Apply(config)
	if err != nil {
		return errdefs.InvalidArgumentf("plugin %q: %w; correct its block in the agent's configuration", name, err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		return errdefs.InvalidArgumentf("plugin %q: encode its config: %w", name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, configLimit)
	defer cancel()
	if err := set(ctx, body); err != nil {
		return fmt.Errorf("plugin %q: it refuses its config: %w", name, err)
	}
	return nil
}

// configOf returns the block for a name that a plugin serves: the block with that
// name, or, as in Nomad, with the name of the file.
func configOf(configs map[string]map[string]any, name, pluginName string) map[string]any {
	if c := configs[name]; c != nil {
		return c
	}
	return configs[pluginName]
}
