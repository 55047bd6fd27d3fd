// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcheck_test

import (
	"context"
	"slices"
	"testing"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networkcheck"
	"github.com/drover-project/drover/sdk/network/v1/networktest/filenetwork"
)

// defective overrides some methods of a plugin that keeps the contract.
type defective struct {
	network.Network
	create  func(*network.Attachment) *network.Attachment
	inspect error
	keeps   bool // Destroy does nothing
	hides   bool // List is empty
	wide    bool // a name that is not there is made all the same
}

func (d defective) Create(ctx context.Context, r network.Request) (*network.Attachment, error) {
	if d.wide {
		r.Network = filenetwork.Name
	}
	a, err := d.Network.Create(ctx, r)
	if err == nil && d.create != nil {
		a = d.create(a)
	}
	return a, err
}

func (d defective) Inspect(ctx context.Context, id string) (*network.Attachment, error) {
	if d.inspect != nil {
		return nil, d.inspect
	}
	return d.Network.Inspect(ctx, id)
}

func (d defective) Destroy(ctx context.Context, id string) error {
	if d.keeps {
		return nil
	}
	return d.Network.Destroy(ctx, id)
}

func (d defective) List(ctx context.Context) ([]string, error) {
	if d.hides {
		return nil, nil
	}
	return d.Network.List(ctx)
}

func TestEachDefectIsFoundByItsCheck(t *testing.T) {
	for _, c := range []struct {
		name  string
		found []string
		d     defective
	}{
		{"none", nil, defective{}},
		{"no path", []string{"create", "fresh-process"}, defective{create: func(a *network.Attachment) *network.Attachment { b := *a; b.Path = ""; return &b }}},
		{"one address for all", []string{"addresses"}, defective{create: func(a *network.Attachment) *network.Attachment {
			b := *a
			b.Addresses = []network.Address{{Prefix: "192.0.2.1/24"}}
			return &b
		}}},
		{"Inspect forgets", []string{"create", "fresh-process"}, defective{inspect: errdefs.NotFoundf("none")}},
		{"Destroy keeps", []string{"destroy", "fresh-process"}, defective{keeps: true}},
		{"List hides", []string{"create", "fresh-process"}, defective{hides: true}},
		{"any name is made", []string{"unknown-network"}, defective{wide: true}},
	} {
		dir := t.TempDir()
		var found []string
		for _, check := range networkcheck.Checks() {
			r := check.Run(t.Context(), networkcheck.Subject{Connect: func(*conformance.T) (network.Network, func()) {
				d := c.d
				d.Network = filenetwork.New("file", dir)
				return d, func() {}
			}})
			if r.Outcome == conformance.Failed {
				found = append(found, check.Name)
			}
		}
		for _, want := range c.found {
			if !slices.Contains(found, want) {
				t.Errorf("%s: found by %q, want %q", c.name, found, want)
			}
		}
		if len(c.found) == 0 && len(found) > 0 {
			t.Errorf("%s: found by %q", c.name, found)
		}
	}
}
