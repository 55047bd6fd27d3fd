// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
)

// The kinds of volumes.
const (
	kindLoop      = "loop"      // a file with a file system in it, or a block device
	kindDirectory = "directory" // a directory without a limit
)

// volumeMeta is what is stored about a volume, in its folder. It is never changed in place: a
// change makes a copy.
type volumeMeta struct {
	ID       string
	Name     string
	Kind     string
	FSType   string `json:",omitempty"` // of kind loop; "" is a block device
	Capacity int64  // in bytes; not enforced for kind directory
	Snapshot string `json:",omitempty"` // the snapshot from which it was made, if any
	Volume   string `json:",omitempty"` // the volume from which it was made, if any
	Created  time.Time
}

// snapshotMeta is what is stored about a snapshot.
type snapshotMeta struct {
	ID       string
	Name     string
	Volume   string
	Kind     string
	FSType   string `json:",omitempty"`
	Capacity int64
	Created  time.Time
}

const (
	metaFile = "meta.json"
	nodeFile = "node.json"
	diskFile = "disk.img" // of kind loop
	dataDir  = "data"     // of kind directory
)

// newID returns an id. Later ids come after earlier ones, so that a list that is read page by
// page shows what is made meanwhile.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	return id.String(), nil
}

// isID reports whether a text could be an id, and so is safe as the name of a file.
func isID(s string) bool {
	id, err := uuid.Parse(s)
	return err == nil && id.String() == s
}

// writeJSON stores a value durably at a path, as a whole or not at all.
func writeJSON(path string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write: %w", err)
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(tmp, path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func readJSON(path string, v any) error {
	body, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("open %s: %w", dir, err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("make %s durable: %w", dir, err)
	}
	return nil
}

// make makes a folder aside with fill, and gives it its place when it is whole.
func (d *Driver) makeWhole(place string, fill func(aside string) error) (err error) {
	aside := filepath.Join(d.asideDir(), filepath.Base(place))
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(aside))
		}
	}()
	if err := os.RemoveAll(aside); err != nil { // of a call that failed
		return fmt.Errorf("remove what was half made: %w", err)
	}
	if err := os.Mkdir(aside, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	if err := fill(aside); err != nil {
		return err
	}
	if err := syncDir(aside); err != nil {
		return err
	}
	if err := os.Rename(aside, place); err != nil {
		return fmt.Errorf("put a folder into its place: %w", err)
	}
	return syncDir(filepath.Dir(place))
}

// remove first moves a folder away from its place, and then deletes it with its content: so
// nobody ever finds a part of it there.
func (d *Driver) remove(place string) error {
	aside := filepath.Join(d.asideDir(), filepath.Base(place)+".gone")
	if err := os.Rename(place, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("take a folder from its place: %w", err)
	}
	if err := syncDir(filepath.Dir(place)); err != nil {
		return err
	}
	if err := os.RemoveAll(aside); err != nil {
		return fmt.Errorf("remove a folder: %w", err)
	}
	return nil
}

// load reads what there is, and removes what a killed driver has left aside.
func (d *Driver) load() error {
	entries, err := os.ReadDir(d.asideDir())
	if err != nil {
		return fmt.Errorf("look for what was half made: %w", err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(d.asideDir(), e.Name())); err != nil {
			return fmt.Errorf("remove what was half made: %w", err)
		}
	}
	err = each(d.volumesDir(), func(path, id string) error {
		m := &volumeMeta{}
		if err := readJSON(filepath.Join(path, metaFile), m); err != nil {
			return err
		}
		d.volumes[id], d.names[m.Name] = m, id
		return nil
	})
	if err != nil {
		return err
	}
	return each(d.snapshotsDir(), func(path, id string) error {
		m := &snapshotMeta{}
		if err := readJSON(filepath.Join(path, metaFile), m); err != nil {
			return err
		}
		d.snapshots[id], d.snapNames[m.Name] = m, id
		return nil
	})
}

// each calls f for each folder that has the name of an id.
func each(dir string, f func(path, id string) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list what there is: %w", err)
	}
	for _, e := range entries {
		if isID(e.Name()) {
			if err := f(filepath.Join(dir, e.Name()), e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// volume returns a volume; nil if there is none of that id.
func (d *Driver) volume(id string) *volumeMeta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.volumes[id]
}

func (d *Driver) snapshot(id string) *snapshotMeta {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.snapshots[id]
}

func (d *Driver) folder(id string) string { return filepath.Join(d.volumesDir(), id) }
func (d *Driver) disk(id string) string   { return filepath.Join(d.folder(id), diskFile) }
