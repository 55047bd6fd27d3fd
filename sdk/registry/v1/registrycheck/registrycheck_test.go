// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registrycheck_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/conformance"
	registry "github.com/drover-project/drover/sdk/registry/v1"
	"github.com/drover-project/drover/sdk/registry/v1/registrycheck"
	"github.com/drover-project/drover/sdk/registry/v1/registrytest/fileregistry"
)

// defective overrides some methods of a registry that keeps the contract.
type defective struct {
	registry.Querier
	sync func(registry.SyncRequest) registry.SyncRequest
	deaf bool // it refuses nothing
	bare bool // its clusters have no attributes
}

func (d defective) Fingerprint(ctx context.Context) (<-chan registry.Fingerprint, error) {
	in, err := d.Querier.Fingerprint(ctx)
	if err != nil || !d.bare {
		return in, err
	}
	out := make(chan registry.Fingerprint)
	go func() {
		defer close(out)
		for f := range in {
			f.Clusters[0].Attributes = nil
			select {
			case out <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (d defective) Sync(ctx context.Context, r registry.SyncRequest) (*registry.SyncResult, error) {
	if d.sync != nil {
		r = d.sync(r)
	}
	result, err := d.Querier.Sync(ctx, r)
	if d.deaf && err == nil {
		result.Refusals = nil
	}
	return result, err
}

func TestEachDefectIsFoundByItsCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		found string
		d     defective
	}{
		{"none", "", defective{}},
		{"one owner", "owners", defective{sync: func(r registry.SyncRequest) registry.SyncRequest { r.Owner = "all"; return r }}},
		{"one cluster", "unknown-cluster", defective{sync: func(r registry.SyncRequest) registry.SyncRequest { r.Cluster = registry.DefaultCluster; return r }}},
		{"no refusal", "refusal", defective{deaf: true}},
		{"no version", "fingerprint", defective{bare: true}},
	} {
		path := filepath.Join(t.TempDir(), "services")
		var found []string
		for _, check := range registrycheck.Checks() {
			r := check.Run(t.Context(), registrycheck.Subject{Settle: 200 * time.Millisecond, Connect: func(*conformance.T) (registry.Registry, func()) {
				d := c.d
				d.Querier = fileregistry.New("file", path)
				return d, func() {}
			}})
			if r.Outcome == conformance.Failed {
				found = append(found, check.Name)
			}
		}
		if c.found != "" && !slices.Contains(found, c.found) || c.found == "" && len(found) > 0 {
			t.Errorf("%s: found by %q, want %q", c.name, found, c.found)
		}
	}
}
