// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/url"

	"github.com/drover-project/drover/core/api"
)

// DriverSchemas returns the schemas of a driver. NotFound: none are known.
func (c *Client) DriverSchemas(ctx context.Context, driver string) (*api.DriverSchemas, error) {
	out, _, err := get[*api.DriverSchemas](ctx, c, "/v1/schemas/driver/"+url.PathEscape(driver), nil)
	return out, err
}
