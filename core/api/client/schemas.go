// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/url"

	"github.com/drover-project/drover/core/api"
)

// DriverSchemas reads what the cluster knows of a driver; NotFound: nothing.
func (c *Client) DriverSchemas(ctx context.Context, driver string) (*api.DriverSchemas, error) {
	out, _, err := get[*api.DriverSchemas](ctx, c, "/v1/schemas/driver/"+url.PathEscape(driver), nil)
	return out, err
}
