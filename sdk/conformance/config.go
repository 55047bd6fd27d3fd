// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package conformance

import (
	"context"
	"encoding/json"

	"github.com/drover-project/drover/sdk/schema"
)

// Configure applies a plugin's schema to an agent config and passes the result to set, the
// plugin's SetConfig, as the host does. It fails the check if either refuses the config. It
// returns the config that the plugin got.
func Configure(t *T, accepts schema.Schema, config map[string]any, set func(ctx context.Context, config []byte) error) []byte {
	applied, err := accepts.Apply(config)
	if err != nil {
		t.Fatalf("the agent config to check with does not fit the plugin's schema: %v", err)
	}
	body, err := json.Marshal(applied)
	if err != nil {
		t.Fatalf("encode the agent config: %v", err)
	}
	if err := set(t.Context(), body); err != nil {
		t.Fatalf("SetConfig: %v", err)
	}
	return body
}
