// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volumecheck_test

import (
	"context"
	"slices"
	"testing"

	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/internal/leak"
	volume "github.com/drover-project/drover/sdk/volume/v1"
	"github.com/drover-project/drover/sdk/volume/v1/volumecheck"
	"github.com/drover-project/drover/sdk/volume/v1/volumetest/filevolume"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// defective is the example with one defect.
type defective struct {
	*filevolume.Volume
	defect string
}

func (d *defective) Create(ctx context.Context, r volume.CreateRequest) (*volume.Description, error) {
	if d.defect == "one volume for all names" {
		r.Name = "same"
	}
	if d.defect == "anything fits" {
		if page, err := d.Volume.List(ctx, volume.PageRequest{}); err == nil && len(page.Volumes) > 1 {
			r.Capacity.RequiredBytes = 0
		}
	}
	out, err := d.Volume.Create(ctx, r)
	if out != nil && d.defect == "too small" {
		out.CapacityBytes = 1
	}
	return out, err
}

func (d *defective) Delete(ctx context.Context, id string, s volume.Secrets) error {
	if _, err := d.Volume.Get(ctx, id); err != nil && d.defect == "Delete wants a volume" {
		return err
	}
	return d.Volume.Delete(ctx, id, s)
}

func (d *defective) Validate(ctx context.Context, r volume.ValidateRequest) error {
	if d.defect == "anything is valid" {
		return nil
	}
	return d.Volume.Validate(ctx, r)
}

func (d *defective) List(ctx context.Context, r volume.PageRequest) (*volume.VolumePage, error) {
	switch d.defect {
	case "List begins anew":
		r.After = ""
	case "List ignores the limit":
		r.Limit = 0
	case "List ends too early":
		page, err := d.Volume.List(ctx, r)
		if page != nil {
			page.Next = ""
		}
		return page, err
	}
	return d.Volume.List(ctx, r)
}

func (d *defective) Fingerprint(ctx context.Context) (<-chan volume.Fingerprint, error) {
	if d.defect != "lists what it cannot" {
		return d.Volume.Fingerprint(ctx)
	}
	out := make(chan volume.Fingerprint, 1)
	out <- volume.Fingerprint{Node: &volume.Node{ID: "here"}, Capabilities: []volume.Capability{volume.CanAttach}}
	context.AfterFunc(ctx, func() { close(out) })
	return out, nil
}

func (d *defective) Publish(ctx context.Context, r volume.PublishRequest) error {
	if d.defect == "Publish takes any way" || d.defect == "read-only takes writes" {
		r.ReadOnly = false
	}
	return d.Volume.Publish(ctx, r)
}

func (d *defective) Unpublish(ctx context.Context, id, path string) error {
	if d.defect == "Unpublish keeps" {
		return nil
	}
	if d.defect == "Unpublish wants a volume" {
		if _, err := d.Volume.Get(ctx, id); err != nil {
			return err
		}
	}
	return d.Volume.Unpublish(ctx, id, path)
}

func (d *defective) Published(ctx context.Context) ([]volume.Publication, error) {
	if d.defect == "Published forgets" {
		return nil, nil
	}
	return d.Volume.Published(ctx)
}

func TestEachDefectIsFoundByItsCheck(t *testing.T) {
	for defect, want := range map[string]string{
		"":                         "",
		"one volume for all names": "create", "anything fits": "create", "too small": "create", "Delete wants a volume": "delete",
		"anything is valid": "validate", "List begins anew": "list", "List ignores the limit": "list", "List ends too early": "list",
		"lists what it cannot": "capabilities", "Publish takes any way": "publish", "read-only takes writes": "read-only", "Unpublish keeps": "interrupted",
		"Unpublish wants a volume": "nothing", "Published forgets": "fresh-process",
	} {
		t.Run(defect, func(t *testing.T) {
			dir := t.TempDir()
			var found []string
			for _, check := range volumecheck.Checks() {
				r := check.Run(t.Context(), volumecheck.Subject{Dir: t.TempDir(), Connect: func(*conformance.T) (volume.Volume, func()) {
					return &defective{filevolume.New("file", dir), defect}, func() {}
				}})
				if r.Outcome == conformance.Failed {
					found = append(found, check.Name)
				}
			}
			if want == "" && len(found) > 0 || want != "" && !slices.Contains(found, want) {
				t.Errorf("found by %q, want %q", found, want)
			}
		})
	}
}
