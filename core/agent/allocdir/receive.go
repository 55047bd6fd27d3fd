// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Receipt says how a stream is received.
type Receipt struct {
	// MostBytes limits the sum of the files' sizes, without their holes.
	MostBytes int64
	// Owner is what tasks without a user run as on this node.
	Owner Owner
	// Room is called before bytes are written and returns an error if the disk has no room for
	// that many; it may be nil. See Dir.Room.
	Room func(bytes int64) error
	// Progress is called now and then; it may be nil.
	Progress func(done, total int64)
}

// Receive reads a stream of Send and stores its contents aside until Adopt moves them into
// place, so that an interrupted stream leaves nothing. The stream is not trusted: Receive
// makes files only below folders that the stream itself has made, never through a link. A
// file loses the bits by which it would run as its owner. Errors of class InvalidArgument
// say that the data cannot be taken; a repetition does not help.
func (d Dir) Receive(in io.Reader, tasks []string, how Receipt) (Summary, error) {
	if err := d.Discard(tasks); err != nil {
		return Summary{}, err
	}
	staging, err := d.makeStaging(tasks)
	if err != nil {
		return Summary{}, err
	}
	defer staging.Close()
	r := receiver{in: tar.NewReader(in), how: how, root: staging, folders: map[string]bool{}}
	sum, err := r.all(Movable(tasks))
	if err != nil {
		return Summary{}, errors.Join(err, d.Discard(tasks))
	}
	return sum, d.markArrived(tasks)
}

// makeStaging makes the folder for the received data, and opens it.
func (d Dir) makeStaging(tasks []string) (*os.Root, error) {
	top, err := os.OpenRoot(d.Path)
	if err != nil {
		return nil, fmt.Errorf("open the alloc directory: %w", err)
	}
	defer top.Close()
	at := tasks[0] + "/" + movedDir
	if err := top.MkdirAll(at, closed); err != nil {
		return nil, fmt.Errorf("make a folder for the data of the alloc before: %w", err)
	}
	root, err := top.OpenRoot(at)
	if err != nil {
		return nil, fmt.Errorf("open the folder for the data of the alloc before: %w", err)
	}
	return root, nil
}

// markArrived notes that everything was received, once that is on the disk.
func (d Dir) markArrived(tasks []string) error {
	if err := syncTree(filepath.Join(d.Path, tasks[0], filepath.FromSlash(movedDir))); err != nil {
		return fmt.Errorf("write the data of the previous alloc to disk: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(d.Path, tasks[0], filepath.FromSlash(movedMarker)), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("note that the data of the previous alloc has arrived: %w", err)
	}
	return errors.Join(f.Sync(), f.Close())
}

type receiver struct {
	in      *tar.Reader
	how     Receipt
	root    *os.Root
	about   Manifest
	got     Summary
	used    int64           // bytes of got that are no holes
	folders map[string]bool // made by this stream
	made    []*tar.Header   // folders, whose modes and times are set at the end
}

func (r *receiver) all(wanted []string) (Summary, error) {
	h, err := r.in.Next()
	if err == nil && h.Name != manifestName {
		err = errdefs.InvalidArgumentf("the data of the previous alloc begins with %q, which is not a manifest; run the same version on both nodes", h.Name)
	}
	if err == nil {
		err = r.note(&r.about)
	}
	if err != nil {
		return Summary{}, brokenStream(err)
	}
	bytes := r.about.Bytes
	if r.about.Used != nil {
		bytes = *r.about.Used
	}
	if err := r.admit(bytes, r.about.Entries); err != nil {
		return Summary{}, err
	}
	if r.about.Version != streamVersion {
		return Summary{}, errdefs.InvalidArgumentf("the data of the previous alloc has the version %d, this node reads %d; run the same version on both nodes", r.about.Version, streamVersion)
	}
	if err := r.room(bytes); err != nil {
		return Summary{}, err
	}
	r.report()
	for {
		h, err := r.in.Next()
		if err != nil {
			return Summary{}, brokenStream(err)
		}
		if h.Name == summaryName {
			return r.finish()
		}
		if err := r.entry(h, wanted); err != nil {
			return Summary{}, err
		}
	}
}

// admit rejects more than the disk of the alloc may have.
func (r *receiver) admit(bytes, entries int64) error {
	switch {
	case bytes > r.how.MostBytes:
		return errdefs.InvalidArgumentf("the data of the previous alloc has %d bytes, and its ephemeral_disk has a size of %d: make size larger", bytes, r.how.MostBytes)
	case entries > MostMoved:
		return errdefs.InvalidArgumentf("the data of the previous alloc has %d files and folders; at most %d are moved", entries, MostMoved)
	}
	return nil
}

func (r *receiver) room(bytes int64) error {
	if r.how.Room == nil {
		return nil
	}
	return r.how.Room(bytes)
}

func (r *receiver) report() {
	if r.how.Progress != nil {
		r.how.Progress(r.got.Bytes, r.about.Bytes)
	}
}

func brokenStream(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errdefs.Unavailablef("the data of the previous alloc broke off")
	}
	if errors.Is(err, tar.ErrHeader) {
		return errdefs.InvalidArgumentf("the data of the previous alloc is not an archive: %w", err)
	}
	return err
}

// note reads the first or the last entry.
func (r *receiver) note(into any) error {
	body, err := io.ReadAll(io.LimitReader(r.in, maxNote))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return errdefs.InvalidArgumentf("read the manifest of the previous alloc's data: %w", err)
	}
	return nil
}

// entry makes one file, folder or link.
func (r *receiver) entry(h *tar.Header, wanted []string) error {
	name := strings.TrimSuffix(h.Name, "/")
	if err := r.check(name, h, wanted); err != nil {
		return err
	}
	var err error
	switch h.Typeflag {
	case tar.TypeDir:
		if err = r.root.Mkdir(name, closed); err == nil {
			r.folders[name] = true
			r.made = append(r.made, h)
		}
	case tar.TypeReg:
		return r.file(name, h)
	case tar.TypeSymlink:
		if err = r.root.Symlink(h.Linkname, name); err == nil {
			err = r.own(name, h)
		}
	case tar.TypeLink:
		err = r.link(name, h)
	default:
		return errdefs.InvalidArgumentf("the data of the previous alloc has %q, which is not a file, folder or link", name)
	}
	if err != nil {
		return fmt.Errorf("receive %q: %w", name, err)
	}
	return nil
}

// check rejects what is not beneath a folder that this stream has made.
func (r *receiver) check(name string, h *tar.Header, wanted []string) error {
	r.got.Entries++
	if err := r.admit(r.used, r.got.Entries); err != nil {
		return err
	}
	top := slices.Contains(wanted, name)
	switch {
	case len(name) > maxPath || len(h.Linkname) > maxPath || name != path.Clean(name) || !filepath.IsLocal(name) || strings.Contains(name, "\\") && filepath.Separator == '\\':
		return errdefs.InvalidArgumentf("the data of the previous alloc has the path %q, which no file of an alloc has", name)
	case top && h.Typeflag != tar.TypeDir:
		return errdefs.InvalidArgumentf("the data of the previous alloc has %q, which is not a folder", name)
	case top:
		return r.root.MkdirAll(path.Dir(name), closed)
	case !r.folders[path.Dir(name)]:
		return errdefs.InvalidArgumentf("the data of the previous alloc has the path %q outside of the folders that move", name)
	}
	return nil
}

// progressEvery is after how many bytes of a file progress is reported.
const progressEvery = 1 << 20

func (r *receiver) file(name string, h *tar.Header) error {
	f, err := r.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, closed.Perm()&0o600)
	if err != nil {
		return fmt.Errorf("receive %q: %w", name, err)
	}
	defer f.Close()
	out := &sparse{file: f, grow: func(n int) error {
		r.used += int64(n)
		return r.admit(r.used, r.got.Entries)
	}}
	for {
		if err := r.room(min(progressEvery, h.Size)); err != nil {
			return err
		}
		n, err := io.CopyN(out, r.in, progressEvery)
		r.got.Bytes += n
		r.report()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("receive %q: %w", name, brokenStream(err))
		}
	}
	if err := f.Truncate(out.at); err != nil { // it may end with a hole
		return fmt.Errorf("receive %q: %w", name, err)
	}
	if err := r.own(name, h); err != nil {
		return err
	}
	if err := f.Chmod(modeIn(h) &^ (fs.ModeSetuid | fs.ModeSetgid)); err != nil {
		return fmt.Errorf("receive %q: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("receive %q: %w", name, err)
	}
	return r.root.Chtimes(name, h.ModTime, h.ModTime)
}

// link gives a file that was received before a second name.
func (r *receiver) link(name string, h *tar.Header) error {
	if !r.folders[path.Dir(h.Linkname)] {
		return errdefs.InvalidArgumentf("%q is another name of %q, which did not come before it", name, h.Linkname)
	}
	if info, err := r.root.Lstat(h.Linkname); err != nil || !info.Mode().IsRegular() {
		return errdefs.InvalidArgumentf("%q is another name of %q, which is no file", name, h.Linkname)
	}
	return r.root.Link(h.Linkname, name)
}

// own gives a file to its owner. An agent that is not root cannot.
func (r *receiver) own(name string, h *tar.Header) error {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		return nil
	}
	uid, gid := h.Uid, h.Gid
	if uid == r.about.Owner.UID {
		uid = r.how.Owner.UID
	}
	if gid == r.about.Owner.GID {
		gid = r.how.Owner.GID
	}
	if uid < 0 || gid < 0 {
		return errdefs.InvalidArgumentf("%q belongs to the user %d and the group %d", name, uid, gid)
	}
	return r.root.Lchown(name, uid, gid)
}

// finish compares the received data with the sender's counts, and sets modes and times of
// the folders: the inner folders first, because writing into a folder changes its time.
func (r *receiver) finish() (Summary, error) {
	var sent Summary
	if err := r.note(&sent); err != nil {
		return Summary{}, brokenStream(err)
	}
	r.got.Skipped = sent.Skipped
	if sent != r.got {
		return Summary{}, errdefs.InvalidArgumentf("the data of the previous alloc is incomplete: %+v was sent, and %+v has arrived", sent, r.got)
	}
	for _, h := range slices.Backward(r.made) {
		name := strings.TrimSuffix(h.Name, "/")
		err := r.own(name, h)
		if err == nil {
			err = r.root.Chmod(name, modeIn(h)&^fs.ModeSetuid)
		}
		if err == nil {
			err = r.root.Chtimes(name, h.ModTime, h.ModTime)
		}
		if err != nil {
			return Summary{}, fmt.Errorf("receive %q: %w", name, err)
		}
	}
	return r.got, nil
}

// modeIn returns the permissions in a header, without its type.
func modeIn(h *tar.Header) fs.FileMode {
	return h.FileInfo().Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
}
