// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"

	"github.com/drover-project/drover/core/agent/releases"
	"github.com/drover-project/drover/core/model"
)

// openReleases makes the keeper of the registry's plugins.
func (a *Agent) openReleases(ctx context.Context) (err error) {
	if a.cfg.Releases == nil {
		return nil
	}
	a.releases, err = releases.New(ctx, releases.Config{
		Servers: a.cfg.Servers, Identity: a.identity(), Host: a.cfg.Releases, Store: a.store,
		Logger: a.cfg.Logger.Named("releases"), Changed: a.touch,
	})
	return err
}

func (a *Agent) keepReleases(ctx context.Context) {
	if a.releases != nil {
		a.work.Go(func() { a.releases.Run(ctx) })
	}
}

// askReleases has the keeper ask what the registry wants.
func (a *Agent) askReleases() {
	if a.releases != nil {
		a.releases.Ask()
	}
}

// withReleases returns the node with what it says of the registry's plugins.
func (a *Agent) withReleases(n *model.Node) *model.Node {
	if a.releases == nil {
		return n
	}
	n = n.Copy()
	n.PluginReleases = a.releases.Report()
	return n
}
