// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// errNoSpace says that the disk is full, or would be.
var errNoSpace = errors.New("no space")

// run runs a program and returns its words if it fails.
func run(ctx context.Context, name string, args ...string) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("this machine has no %s; install it: %w", name, err)
	}
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %.500s", name, err, out)
	}
	return nil
}

// fill makes the content of a new volume in its folder. What was copied from a source only
// grows.
func fill(ctx context.Context, dir string, m *volumeMeta, copied bool) error {
	if m.Kind == kindDirectory {
		if copied {
			return nil
		}
		if err := os.Mkdir(filepath.Join(dir, dataDir), 0o755); err != nil {
			return fmt.Errorf("make the directory: %w", err)
		}
		if err := os.Chmod(filepath.Join(dir, dataDir), everybody); err != nil { // umask
			return fmt.Errorf("let every user write into the directory: %w", err)
		}
		return nil
	}
	path := filepath.Join(dir, diskFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("make the file of the volume: %w", err)
	}
	defer f.Close()
	if err := f.Truncate(m.Capacity); err != nil {
		return fmt.Errorf("make the file of the volume: %w", err)
	}
	if !copied {
		if err := format(ctx, path, m.FSType); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("make the file of the volume durable: %w", err)
	}
	return nil
}

// format makes a file system in a file.
func format(ctx context.Context, path, fsType string) error {
	switch fsType {
	case "ext4": // what it leaves out now, the kernel does when it is mounted
		return run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path)
	case "xfs":
		return run(ctx, "mkfs.xfs", "-q", "-f", "-K", path)
	}
	return nil
}

// copyContent copies what a volume or a snapshot has as it is at one time. A volume that is
// mounted stands still meanwhile.
func (d *Driver) copyContent(ctx context.Context, s *source, into string) error {
	if s.kind == kindDirectory {
		// #nosec: cp copies owners, times, links and attributes, and shares blocks where it can.
		return run(ctx, "cp", "-a", "--reflink=auto", filepath.Join(s.path, dataDir), filepath.Join(into, dataDir))
	}
	from := filepath.Join(s.path, diskFile)
	if s.volume != "" {
		thaw, err := d.freeze(s.volume)
		if err != nil {
			return err
		}
		defer thaw()
	}
	return copyFile(ctx, from, filepath.Join(into, diskFile))
}

// copyFile copies a file with its holes. Blocks are shared where the file system can.
func copyFile(ctx context.Context, from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("open what is copied: %w", err)
	}
	defer src.Close()
	if err := src.Sync(); err != nil {
		return fmt.Errorf("make what is copied durable: %w", err)
	}
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("make the copy: %w", err)
	}
	defer func() {
		if err = errors.Join(err, dst.Sync(), dst.Close()); errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w for the copy: %w", errNoSpace, err)
		}
	}()
	if unix.IoctlFileClone(int(dst.Fd()), int(src.Fd())) == nil {
		return nil
	}
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("look at what is copied: %w", err)
	}
	for at := int64(0); ; {
		begin, err := src.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, syscall.ENXIO) { // nothing but a hole follows
			break
		}
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		end, err := src.Seek(begin, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		if err := copyRange(ctx, dst, src, begin, end); err != nil {
			return err
		}
		at = end
	}
	if err := dst.Truncate(info.Size()); err != nil {
		return fmt.Errorf("copy: %w", err)
	}
	return nil
}

// copyRange copies some bytes, and looks between pieces whether it is still wanted.
func copyRange(ctx context.Context, dst, src *os.File, begin, end int64) error {
	const piece = 32 << 20
	for at := begin; at < end; {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		n, err := io.Copy(io.NewOffsetWriter(dst, at), io.NewSectionReader(src, at, min(piece, end-at)))
		if err != nil {
			return fmt.Errorf("copy: %w", err)
		}
		if n == 0 {
			return errors.New("copy: the file has become shorter")
		}
		at += n
	}
	return nil
}

// free returns the bytes that new volumes can have: what the disk has free, without what was
// promised to volumes and is not written yet.
func (d *Driver) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.cfg.Dir, &st); err != nil {
		return 0, fmt.Errorf("look for free space: %w", err)
	}
	free := int64(st.Bavail) * st.Bsize
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, m := range d.volumes {
		var file unix.Stat_t
		if m.Kind == kindLoop && unix.Stat(d.disk(id), &file) == nil {
			free -= max(0, m.Capacity-file.Blocks*512)
		}
	}
	return max(0, free), nil
}

func (d *Driver) checkSpace(size int64) error {
	free, err := d.free()
	if err != nil {
		return err
	}
	if size > free {
		return fmt.Errorf("%w: %d bytes are wanted, and %d are neither used nor promised to other volumes", errNoSpace, size, free)
	}
	return nil
}

// lockDir locks a file until it is closed or the process ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the volumes: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another process of the driver has %s: %w", filepath.Dir(path), err)
	}
	return f, nil
}
