// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	consul "github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Registry registers services with Consul.
type Registry struct {
	mu       sync.Mutex
	clusters map[string]*cluster
	changed  chan struct{} // closed, and replaced by a new one, whenever clusters is replaced
}

var (
	_ registry.Querier       = (*Registry)(nil)
	_ registry.Authenticator = (*Registry)(nil)
)

// New returns a registry without clusters.
func New() *Registry { return &Registry{changed: make(chan struct{})} }

// Info implements registry.Registry.
func (r *Registry) Info() registry.Info { return registry.Info{Name: name, ConfigSchema: configSchema} }

// SetConfig implements registry.Registry.
func (r *Registry) SetConfig(_ context.Context, config []byte) error {
	all, err := parse(config)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clusters = all
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

// all returns the clusters in the order of their names, and a channel that is closed when
// there are others.
func (r *Registry) all() ([]*cluster, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*cluster
	for _, name := range slices.Sorted(maps.Keys(r.clusters)) {
		out = append(out, r.clusters[name])
	}
	return out, r.changed
}

func (r *Registry) cluster(name string) (*cluster, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.clusters[name]; c != nil {
		return c, nil
	}
	return nil, errdefs.NotFoundf("there is no Consul cluster %q on this node; it has %s", name, strings.Join(slices.Sorted(maps.Keys(r.clusters)), ", "))
}

// classified gives an error of the client its class.
func classified(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", what, err)
	var status consul.StatusError
	switch {
	case errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized):
		return errdefs.New(errdefs.PermissionDenied, err)
	case refused(err):
		return errdefs.New(errdefs.InvalidArgument, err)
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return errdefs.New(errdefs.Canceled, err)
	}
	return errdefs.New(errdefs.Unavailable, err)
}

// refused reports whether Consul refuses a request, and will refuse it as long as it stays the
// same. The other three say that there are too many requests (429, 408), or that what was there
// a moment ago is gone (404).
func refused(err error) bool {
	var status consul.StatusError
	if !errors.As(err, &status) {
		return false
	}
	switch status.Code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return false
	}
	return status.Code >= 400 && status.Code < 500
}

// failing reports whether the agent says that it has failed by itself. Some of its versions
// say so of services that they refuse.
func failing(err error) bool {
	var status consul.StatusError
	return errors.As(err, &status) && status.Code >= 500
}

// concernsOne reports whether the error of a request about one service says nothing about
// requests for others: the agent has answered, and has not asked for fewer requests.
func concernsOne(err error) bool {
	var status consul.StatusError
	return errors.As(err, &status) && status.Code != http.StatusTooManyRequests
}
