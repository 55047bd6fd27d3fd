// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import "context"

// RouteParams is the declared parameters of every route.
var RouteParams = routeParams

// Everywhere are the parameters that every route takes.
const Everywhere = everywhere

// ToldOfReads returns a context whose requests tell which parameters are read.
func ToldOfReads(ctx context.Context, told func(name string)) context.Context {
	return context.WithValue(ctx, readKey{}, told)
}
