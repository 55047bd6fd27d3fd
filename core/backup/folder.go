// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/backup/wire"
	"github.com/drover-project/drover/core/durable"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Store keeps snapshots. A name exists only with its whole content.
type Store interface {
	// Scratch returns the folder for unfinished files, "" for the system's temporary
	// folder.
	Scratch() string
	// Put stores a file, and reads it again to compare its SHA-256, in hex, with sum. If it
	// fails, nothing is stored under the name. It may move the file.
	Put(ctx context.Context, file, name, sum string) error
	// List returns the stored files whose names begin with prefix, in any order.
	List(ctx context.Context, prefix string) ([]wire.Object, error)
	// Delete removes a file. It is no error if it does not exist.
	Delete(ctx context.Context, name string) error
	// String names the store, without secrets.
	String() string
}

// folder is a folder of this machine.
type folder struct{ dir string }

// Folder returns a store in a folder, which is made if it does not exist.
func Folder(dir string) (Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the folder of the snapshots: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder of the snapshots: %w", err)
	}
	return folder{dir}, nil
}

// Scratch is the folder itself, so that a finished file needs only a new name.
func (f folder) Scratch() string { return f.dir }

func (f folder) String() string { return f.dir }

func (f folder) Put(_ context.Context, file, name, sum string) error {
	got, err := sumOf(file)
	if err != nil {
		return fmt.Errorf("read the snapshot again: %w", err)
	}
	if got != sum {
		return differs(got, sum)
	}
	if err := os.Rename(file, filepath.Join(f.dir, name)); err != nil {
		return fmt.Errorf("name the snapshot: %w", err)
	}
	return durable.SyncFolder(f.dir)
}

func differs(got, sum string) error {
	return errdefs.Internalf("what was stored has the SHA-256 %s instead of %s, so it was removed", got, sum)
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

func (f folder) List(_ context.Context, prefix string) ([]wire.Object, error) {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return nil, err
	}
	var out []wire.Object
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !strings.HasPrefix(e.Name(), prefix) {
			continue // an entry without Info was removed in between
		}
		out = append(out, wire.Object{Name: e.Name(), Size: info.Size()})
	}
	return out, nil
}

func (f folder) Delete(_ context.Context, name string) error {
	err := os.Remove(filepath.Join(f.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
