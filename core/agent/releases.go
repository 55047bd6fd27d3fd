// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import (
	"context"
	"errors"
	"io"

	"github.com/drover-project/drover/core/agent/releases"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost"
	"github.com/drover-project/drover/sdk/errdefs"
)

// openReleases makes the keeper of the registry's plugins.
func (a *Agent) openReleases(ctx context.Context) (err error) {
	host := a.cfg.Releases
	switch {
	case host != nil:
	case a.host != nil:
		host = hostReleases{a.host}
	default:
		return nil
	}
	a.releases, err = releases.New(ctx, releases.Config{
		Servers: a.cfg.Servers, Identity: a.session.Identity(), Host: host, Store: a.store,
		Logger: a.cfg.Logger.Named("releases"), Changed: a.session.Touch,
	})
	return err
}

func (a *Agent) keepReleases(ctx context.Context) {
	if a.releases != nil {
		a.work.Go(func() { a.releases.Run(ctx) })
	}
}

// askReleases makes the keeper request the registry's releases.
func (a *Agent) askReleases() {
	if a.releases != nil {
		a.releases.Ask()
	}
}

// registration returns the node as it registers, including its reports about the registry's
// plugins.
func (a *Agent) registration() *model.Node {
	n := a.Node()
	if a.releases == nil {
		return n
	}
	n = n.Copy()
	n.PluginReleases = a.releases.Report()
	return n
}

// hostReleases is the plugin host as the keeper sees it.
type hostReleases struct{ *pluginhost.Host }

// Install implements releases.Host.
func (h hostReleases) Install(ctx context.Context, name string, r *model.PluginRelease, body io.Reader) error {
	_, err := h.InstallFrom(ctx, pluginhost.Release{Name: name, Version: r.Version, Source: r.Source, Digest: r.Digest, Config: r.Config}, body)
	var trial *pluginhost.TrialError
	if errors.As(err, &trial) && ctx.Err() == nil && !errdefs.IsResourceExhausted(err) {
		return errdefs.New(errdefs.FailedPrecondition, err) // trying again would not help
	}
	return err
}

// Remove implements releases.Host.
func (h hostReleases) Remove(ctx context.Context, name string) error {
	return h.Host.Remove(ctx, name, false)
}

// Digests implements releases.Host.
func (h hostReleases) Digests() (map[string]string, <-chan struct{}) {
	list, changed := h.Plugins()
	out := make(map[string]string, len(list))
	for _, p := range list {
		if p.State != pluginhost.StateRemoved { // its file is gone
			out[p.Name] = p.Digest
		}
	}
	return out, changed
}
