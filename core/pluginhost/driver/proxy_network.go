// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"context"
	"slices"

	v1 "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// CreateNetwork implements Networker. It may take as long as a start, since a driver may
// have to fetch the image of the container that holds the network.
func (p *Proxy) CreateNetwork(ctx context.Context, req NetworkRequest) (*NetworkIsolation, error) {
	var made *NetworkIsolation
	err := p.onNetwork(ctx, func(ctx context.Context, n Networker) (err error) {
		ctx, cancel := context.WithTimeout(ctx, p.limits.Start)
		defer cancel()
		made, err = n.CreateNetwork(ctx, req)
		return settle(ctx, err)
	})
	return made, err
}

// DestroyNetwork implements Networker.
func (p *Proxy) DestroyNetwork(ctx context.Context, allocID string, network *NetworkIsolation) error {
	return p.onNetwork(ctx, func(ctx context.Context, n Networker) error {
		ctx, cancel := context.WithTimeout(ctx, p.limits.Call)
		defer cancel()
		return settle(ctx, n.DestroyNetwork(ctx, allocID, network))
	})
}

// onNetwork makes one call about a network. Its failure does not hold up calls about tasks.
func (p *Proxy) onNetwork(ctx context.Context, call func(context.Context, Networker) error) error {
	defer p.begin()()
	d, gen, err := p.forCall(ctx)
	if err != nil {
		return err
	}
	defer p.leave(gen)
	n, ok := d.(Networker)
	if !ok || !slices.Contains(d.Info().Features, v1.FeatureNetworks) {
		return errdefs.Unimplementedf("driver %q does not make networks", p.name)
	}
	return p.breaker.Aside(ctx, func(ctx context.Context) error { return call(ctx, n) })
}
