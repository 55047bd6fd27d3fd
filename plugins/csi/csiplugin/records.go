// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// record is what this machine has of a volume, or is about to get. It is written before the
// driver is called and changed after the reverse call has succeeded.
type record struct {
	ID      string
	Staging string            `json:",omitempty"`
	Targets map[string]target `json:",omitempty"` // by path
}

// target is a path where a volume is published.
type target struct {
	Mode     volume.AccessMode
	ReadOnly bool `json:",omitempty"`
}

// records are the files with what this machine has of volumes: one for each volume. The lane
// of a volume guards its file.
type records struct{ dir string }

// file is the path of a volume's record. Ids of volumes can be anything.
func (r *records) file(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(r.dir, hex.EncodeToString(sum[:16])+".json")
}

// get returns the record of a volume, an empty one if there is none.
func (r *records) get(id string) (*record, error) {
	out, err := r.read(r.file(id))
	if errors.Is(err, fs.ErrNotExist) {
		return &record{ID: id, Targets: map[string]target{}}, nil
	}
	if err != nil {
		return nil, err
	}
	if out.ID != id {
		return nil, errdefs.FailedPreconditionf("the record %s is that of another volume; remove it", r.file(id))
	}
	return out, nil
}

func (r *records) read(path string) (*record, error) {
	body, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read what the machine has of a volume: %w", err)
	}
	out := &record{}
	if err := json.Unmarshal(body, out); err != nil {
		return nil, errdefs.FailedPreconditionf("the record %s is damaged; unmount what the volume has left and remove it: %w", path, err)
	}
	if out.Targets == nil {
		out.Targets = map[string]target{}
	}
	return out, nil
}

// put stores a record durably, or removes it if nothing is left of the volume.
func (r *records) put(one *record) error {
	path := r.file(one.ID)
	if one.Staging == "" && len(one.Targets) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget a volume: %w", err)
		}
		return nil
	}
	body, err := json.Marshal(one)
	if err != nil {
		return errdefs.Internalf("encode what the machine has of a volume: %w", err)
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("keep what the machine has of a volume: %w", err)
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep what the machine has of a volume: %w", err)
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return fmt.Errorf("keep what the machine has of a volume: %w", err)
	}
	return nil
}

// all returns all records, in the order of ids.
func (r *records) all() ([]volume.Publication, error) {
	entries, err := os.ReadDir(r.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list what the machine has of volumes: %w", err)
	}
	var out []volume.Publication
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		one, err := r.read(filepath.Join(r.dir, e.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, volume.Publication{ID: one.ID, StagingPath: one.Staging, TargetPaths: slices.Sorted(maps.Keys(one.Targets))})
	}
	slices.SortFunc(out, func(a, b volume.Publication) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// exclusive reports whether a mode lets a volume be written at one path only.
func exclusive(m volume.AccessMode) bool {
	return m == volume.SingleNodeWriter || m == volume.SingleNodeSingleWriter
}

// admit says why a volume must not be published at one more path; nil if it may. What a
// driver knows is not relied on, since it may have forgotten.
func (r *record) admit(path string, want target) error {
	if now, there := r.Targets[path]; there {
		if now != want {
			return errdefs.AlreadyExistsf("volume %q is published at %s in another way; unpublish it first", r.ID, path)
		}
		return nil
	}
	if want.ReadOnly {
		return nil
	}
	for other, now := range r.Targets {
		if !now.ReadOnly && (exclusive(want.Mode) || exclusive(now.Mode)) {
			return errdefs.WithReason(errdefs.FailedPreconditionf("volume %q has one writer, at %s; unpublish it there first", r.ID, other), volume.ReasonInUse)
		}
	}
	return nil
}
