// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package unpack

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// tarOf extracts a tar that is compressed in the way that open reverses.
func tarOf(open opener) format {
	return func(u *unpacking, src *os.File) error {
		r, err := open(bufio.NewReaderSize(src, 128<<10))
		if err != nil {
			return fmt.Errorf("decompress the file: %w", err)
		}
		defer release(r)
		return u.untar(tar.NewReader(r))
	}
}

func (u *unpacking) untar(r *tar.Reader) error {
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the tar: %w", err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader || h.Typeflag == tar.TypeXHeader {
			continue
		}
		if err := u.tarEntry(h, r); err != nil {
			return err
		}
	}
}

func (u *unpacking) tarEntry(h *tar.Header, r io.Reader) error {
	name, err := u.name(h.Name)
	if err != nil {
		return err
	}
	perm := h.FileInfo().Mode().Perm()
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		if err := u.claim(h.Size); err != nil {
			return err
		}
		return u.file(name, perm, r)
	case tar.TypeDir:
		return u.dir(name, perm)
	case tar.TypeSymlink:
		return u.link(name, h.Linkname)
	case tar.TypeLink:
		return u.hardLink(name, h.Linkname)
	case tar.TypeChar, tar.TypeBlock:
		return errdefs.InvalidArgumentf("the archive has the device node %q; repack it without", h.Name)
	case tar.TypeFifo:
		return errdefs.InvalidArgumentf("the archive has the fifo %q; repack it without", h.Name)
	}
	return errdefs.InvalidArgumentf("the archive has %q, an entry of the unknown kind %q", h.Name, h.Typeflag)
}

// hardLink extracts a hard link. Its target must be a file of the archive.
func (u *unpacking) hardLink(name, target string) error {
	if u.single != "" || name == "" || hasDotDot(target) {
		return errdefs.InvalidArgumentf("the archive has the hard link %q to %q, which is not allowed here", name, target)
	}
	to, err := u.name(target)
	if err != nil {
		return err
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if info, err := u.root.Lstat(to); err != nil || !info.Mode().IsRegular() {
		return errdefs.InvalidArgumentf("the archive has the hard link %q to %q, which is not a file of the archive", name, target)
	}
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %q: %w", name, err)
	}
	if err := u.root.Link(to, name); err != nil {
		return fmt.Errorf("make the hard link %q: %w", name, err)
	}
	return nil
}

// unzip extracts a zip.
func (u *unpacking) unzip(src *os.File) error {
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("stat the archive: %w", err)
	}
	z, err := zip.NewReader(src, info.Size())
	if err != nil {
		return fmt.Errorf("read the zip: %w", err)
	}
	if u.maxFiles > 0 && len(z.File) > u.maxFiles {
		return errdefs.InvalidArgumentf("the archive has %d files; at most %d are unpacked (artifact.decompression_file_count_limit of the agent)", len(z.File), u.maxFiles)
	}
	for _, f := range z.File {
		if err := u.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) zipEntry(f *zip.File) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	name, err := u.name(f.Name)
	if err != nil {
		return err
	}
	m := f.Mode()
	if m.IsDir() {
		return u.dir(name, m)
	}
	if !m.IsRegular() && m&fs.ModeSymlink == 0 {
		return errdefs.InvalidArgumentf("the archive has %q, which is a device node or another special file; repack it without", f.Name)
	}
	if err := u.claim(int64(min(f.UncompressedSize64, 1<<62))); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return fmt.Errorf("read %q of the zip: %w", f.Name, err)
	}
	defer func() { _ = r.Close() }()
	if m&fs.ModeSymlink == 0 {
		return u.file(name, m, r)
	}
	target, err := io.ReadAll(io.LimitReader(r, maxTarget+1))
	if err != nil {
		return fmt.Errorf("read the link %q of the zip: %w", f.Name, err)
	}
	return u.link(name, string(target))
}

func hasDotDot(path string) bool {
	return slices.Contains(strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }), "..")
}
