// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Movable returns the folders of an alloc that go with its data, relative to its
// directory: alloc/data and the local folder of each task.
func Movable(tasks []string) []string {
	out := []string{SharedDir + "/" + DataDir}
	for _, t := range tasks {
		out = append(out, t+"/"+LocalDir)
	}
	return out
}

// Owner is a user id and a group id.
type Owner struct{ UID, GID int }

// Manifest is the first entry of the stream in which data moves to another node.
type Manifest struct {
	Version int
	// Owner is what tasks without a user ran as. The receiver gives this owner's files to
	// the user of such tasks on its own node; all other ids stay.
	Owner Owner
	// Bytes and Entries are the size and the number of the files and folders that follow.
	Bytes, Entries int64
	// Used is what of Bytes is no hole. Older nodes do not say it.
	Used *int64 `json:",omitempty"`
}

// Summary is the last entry of the stream: without it the stream broke off.
type Summary struct {
	Bytes, Entries int64
	Skipped        int64 // devices, sockets, FIFOs and too long paths, which do not move
}

// The stream is a tar archive. Its first and its last entry have names that no data has,
// because data is in one of the folders of Movable.
const (
	manifestName  = "drover-manifest.json"
	summaryName   = "drover-summary.json"
	streamVersion = 1
)

// MostMoved is how many files and folders an alloc's data may have if it moves.
const MostMoved = 1_000_000

const (
	maxNote = 64 << 10 // size of the first and the last entry
	maxPath = 4096     // bytes of an entry's name and of a link's target
)

// Received data stays in the private folder of the first task, which no API shows, until it
// is moved into place. The folder moved holds it, and a file beside it marks that all of it
// has arrived.
const (
	movedDir    = PrivateDir + "/moved"
	movedMarker = PrivateDir + "/moved.complete"
)

// Arrived reports whether a Receive has completed whose data Adopt has not yet put into
// its place.
func (d Dir) Arrived(tasks []string) bool {
	_, err := os.Lstat(filepath.Join(d.Path, tasks[0], filepath.FromSlash(movedMarker)))
	return err == nil
}

// Adopt puts received data into its place. It may be repeated after an interruption.
func (d Dir) Adopt(tasks []string) error {
	root, err := os.OpenRoot(d.Path)
	if err != nil {
		return fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	from := tasks[0] + "/" + movedDir
	for _, m := range Movable(tasks) {
		staged := from + "/" + m
		if info, err := root.Lstat(staged); err != nil || !info.IsDir() {
			continue // the alloc before had none, or it was put into its place before
		}
		if err := root.RemoveAll(m); err != nil {
			return fmt.Errorf("make room for the data of the previous alloc in %q: %w", m, err)
		}
		if err := root.Rename(staged, m); err != nil {
			return fmt.Errorf("put the data of the previous alloc into %q: %w", m, err)
		}
	}
	return errors.Join(root.RemoveAll(from), root.Remove(tasks[0]+"/"+movedMarker))
}

// Discard removes partly received data.
func (d Dir) Discard(tasks []string) error {
	root, err := os.OpenRoot(d.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the alloc directory: %w", err)
	}
	defer root.Close()
	err = errors.Join(root.RemoveAll(tasks[0]+"/"+movedMarker), root.RemoveAll(tasks[0]+"/"+movedDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the partly received data of the previous alloc: %w", err)
	}
	return nil
}
