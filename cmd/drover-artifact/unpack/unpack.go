// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package unpack extracts untrusted archives into a directory, within limits of
// bytes and files, and never outside the directory. It owns the formats: tar and zip
// with their compressions, and single compressed files. It extracts links and
// rejects device nodes. It fetches nothing. Only cmd/drover-artifact and packages
// below it may import it.
package unpack

import (
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/drover-project/drover/sdk/errdefs"
)

// maxWindow is the memory in bytes that a zstd stream may request.
const maxWindow = 256 << 20

// Limits bounds the size of the extracted files and their number. Zero means no
// limit.
type Limits struct {
	MaxBytes int64
	MaxFiles int
}

// opener returns a reader of the decompressed stream.
type opener func(io.Reader) (io.Reader, error)

// compressions returns the openers by file name extension.
func compressions() map[string]opener {
	return map[string]opener{
		"gz":  func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
		"bz2": func(r io.Reader) (io.Reader, error) { return bzip2.NewReader(r), nil },
		"xz":  func(r io.Reader) (io.Reader, error) { return xz.NewReader(r) },
		"zst": func(r io.Reader) (io.Reader, error) {
			return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow))
		},
	}
}

// format extracts one kind of archive.
type format func(u *unpacking, src *os.File) error

func formats() map[string]format {
	plain := func(r io.Reader) (io.Reader, error) { return r, nil }
	out := map[string]format{"zip": (*unpacking).unzip, "tar": tarOf(plain)}
	for name, open := range compressions() {
		out[name], out["tar."+name] = single(open), tarOf(open)
	}
	out["tgz"], out["tbz2"], out["txz"], out["tzst"] = out["tar.gz"], out["tar.bz2"], out["tar.xz"], out["tar.zst"]
	return out
}

// Kinds lists the kinds of archives by their file name extension, sorted.
func Kinds() []string {
	var out []string
	for k := range formats() {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// Archive extracts the archive src of a kind into the new directory dst or, if dir
// is false, its only file to the path dst. Errors have the class InvalidArgument,
// because a damaged archive stays damaged, unless they come from this machine's disk
// or from ctx.
func Archive(ctx context.Context, kind, src, dst string, dir bool, limits Limits) error {
	f, err := os.Open(src)
	if err != nil {
		return fmt.Errorf("open the archive: %w", err)
	}
	defer func() { _ = f.Close() }()
	at, name := dst, ""
	if !dir {
		at, name = filepath.Dir(dst), filepath.Base(dst)
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return fmt.Errorf("make the folder: %w", err)
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return fmt.Errorf("open the folder: %w", err)
	}
	defer func() { _ = root.Close() }()
	run, ok := formats()[kind]
	if !ok {
		return errdefs.InvalidArgumentf("archives of kind %q are not supported; use one of %s", kind, strings.Join(Kinds(), ", "))
	}
	u := &unpacking{ctx: ctx, root: root, single: name, maxBytes: limits.MaxBytes, maxFiles: limits.MaxFiles}
	err = run(u, f)
	if err == nil {
		err = u.finish()
	}
	var disk *fs.PathError // an error of this machine's disk, not of the archive
	var link *os.LinkError
	if err == nil || errdefs.IsInvalidArgument(err) || errors.As(err, &disk) || errors.As(err, &link) || ctx.Err() != nil {
		return err
	}
	return errdefs.InvalidArgumentf("the archive cannot be unpacked; check that it is complete and has the format that its name says (archive=false keeps it packed): %w", err)
}

// unpacking is the state of one extraction.
type unpacking struct {
	ctx      context.Context //nolint:containedctx // lives as long as the call
	root     *os.Root
	single   string // name of the only file if dir is false
	maxBytes int64
	maxFiles int

	bytes int64
	files int
	links []link
	modes []dirMode
}

type link struct{ name, target string }

type dirMode struct {
	name string
	perm fs.FileMode
}

// name checks the name of an entry and returns the path to extract it to. It returns
// "" for the directory itself.
func (u *unpacking) name(entry string) (string, error) {
	if u.files++; u.maxFiles > 0 && u.files > u.maxFiles {
		return "", errdefs.InvalidArgumentf("the archive has more than %d files; raise artifact.decompression_file_count_limit of the agent", u.maxFiles)
	}
	if hasDotDot(entry) {
		return "", errdefs.InvalidArgumentf("the archive has the entry %q, which leads out of the archive with \"..\"; repack it without", entry)
	}
	if strings.ContainsRune(entry, 0) {
		return "", errdefs.InvalidArgumentf("the archive has an entry whose name has a zero byte")
	}
	if u.single != "" {
		if u.files > 1 {
			return "", errdefs.InvalidArgumentf("the archive has several files where mode \"file\" asks for one; use mode \"any\"")
		}
		return u.single, nil
	}
	return strings.TrimPrefix(path.Clean("/"+filepath.ToSlash(entry)), "/"), nil
}

// claim rejects an entry whose header announces more bytes than the limits allow.
func (u *unpacking) claim(size int64) error {
	if u.maxBytes > 0 && (size < 0 || size > u.maxBytes-u.bytes) {
		return errdefs.InvalidArgumentf("the archive has more than %d bytes when unpacked; raise artifact.decompression_size_limit of the agent", u.maxBytes)
	}
	return nil
}

func (u *unpacking) file(name string, perm fs.FileMode, r io.Reader) error {
	if name == "" {
		return errdefs.InvalidArgumentf("the archive has a file without a name")
	}
	if err := u.parents(name); err != nil {
		return err
	}
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace %q: %w", name, err) // if a name occurs twice, the later entry replaces the earlier one
	}
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm.Perm()|0o600)
	if err != nil {
		return fmt.Errorf("make the file %q: %w", name, err)
	}
	err = u.copy(f, r)
	if err == nil {
		err = f.Chmod(perm.Perm())
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("unpack %q: %w", name, err)
	}
	return nil
}

// copy copies an entry until it ends, a limit is exceeded, or ctx ends.
func (u *unpacking) copy(w io.Writer, r io.Reader) error {
	buf := make([]byte, 128<<10)
	for {
		if err := u.ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if cerr := u.claim(int64(n)); cerr != nil {
			return cerr
		}
		u.bytes += int64(n)
		if _, werr := w.Write(buf[:n]); werr != nil {
			return werr
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacking) parents(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	if err := u.root.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder %q: %w", dir, err)
	}
	return nil
}

func (u *unpacking) dir(name string, perm fs.FileMode) error {
	if u.single != "" {
		return errdefs.InvalidArgumentf("the archive has a folder where mode \"file\" asks for one file; use mode \"any\"")
	}
	if name == "" {
		return nil
	}
	if err := u.root.MkdirAll(name, 0o755); err != nil {
		return fmt.Errorf("make the folder %q: %w", name, err)
	}
	u.modes = append(u.modes, dirMode{name: name, perm: perm.Perm() | 0o700})
	return nil
}

// maxTarget is the length of a link's target in bytes.
const maxTarget = 4096

// link records a symbolic link. finish creates it after all files, so that nothing
// is written through it.
func (u *unpacking) link(name, target string) error {
	if u.single != "" || name == "" {
		return errdefs.InvalidArgumentf("the archive has a link where mode \"file\" needs a file; use mode \"any\"")
	}
	if len(target) > maxTarget || target == "" || path.IsAbs(filepath.ToSlash(target)) || filepath.IsAbs(target) || leaves(path.Join(path.Dir(name), filepath.ToSlash(target))) {
		return errdefs.InvalidArgumentf("the archive has the link %q, which points outside of it (to %q); repack it without", name, target[:min(len(target), 200)])
	}
	u.links = append(u.links, link{name: name, target: target})
	return nil
}

// leaves reports whether a clean relative path leads out of its directory.
func leaves(p string) bool { return p == ".." || strings.HasPrefix(p, "../") }

// finish creates the links and sets the permissions of directories.
func (u *unpacking) finish() error {
	if u.files == 0 {
		return errdefs.InvalidArgumentf("the archive is empty")
	}
	for _, l := range u.links {
		if err := u.parents(l.name); err != nil {
			return err
		}
		if err := u.root.Remove(l.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("replace %q: %w", l.name, err)
		}
		if err := u.root.Symlink(l.target, l.name); err != nil {
			return fmt.Errorf("make the link %q: %w", l.name, err)
		}
	}
	for i := len(u.modes) - 1; i >= 0; i-- {
		if info, err := u.root.Lstat(u.modes[i].name); err != nil || !info.IsDir() {
			continue // a later entry took its place
		}
		if err := u.root.Chmod(u.modes[i].name, u.modes[i].perm); err != nil {
			return fmt.Errorf("set the permissions of %q: %w", u.modes[i].name, err)
		}
	}
	return nil
}

// single decompresses a file that is not an archive.
func single(open opener) format {
	return func(u *unpacking, src *os.File) error {
		if u.single == "" {
			return errdefs.InvalidArgumentf("a compressed file that is not an archive unpacks to a single file; set mode = \"file\" and the file's name as destination, or archive = false")
		}
		r, err := open(bufio.NewReaderSize(src, 128<<10))
		if err != nil {
			return fmt.Errorf("decompress the file: %w", err)
		}
		defer release(r)
		name, err := u.name(u.single)
		if err != nil {
			return err
		}
		return u.file(name, 0o644, r)
	}
}

// release closes a reader that has a Close method.
func release(r io.Reader) {
	if d, ok := r.(*zstd.Decoder); ok {
		d.Close()
	}
}
