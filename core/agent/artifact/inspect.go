// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

// seal makes the agent the owner of the staging directory, so that the child's user
// cannot change it during the inspection.
func (st *stage) seal() error {
	if err := st.child.disown(st.alloc, st.name); err != nil {
		return fmt.Errorf("take the staging folder back: %w", err)
	}
	return nil
}

// inspect checks the fetched tree and reduces permissions to rwx. The tree may contain
// only files, directories and links that stay within it.
func (st *stage) inspect(cfg Config, mode string) error {
	out, err := st.alloc.OpenRoot(st.name)
	if err != nil {
		return fmt.Errorf("open the staging folder: %w", err)
	}
	defer func() { _ = out.Close() }()
	info, err := out.Lstat(wire.OutName)
	if errors.Is(err, fs.ErrNotExist) {
		return errdefs.InvalidArgumentf("the source gave nothing; name a file or an archive (a folder cannot be read over http)")
	}
	if err != nil {
		return fmt.Errorf("look at the fetched files: %w", err)
	}
	if mode == "file" && !info.Mode().IsRegular() {
		return errdefs.InvalidArgumentf("the source gave %s where mode \"file\" asks for a file; use mode \"any\" or \"dir\"", kind(info.Mode()))
	}
	if mode != "file" && !info.IsDir() {
		return errdefs.InvalidArgumentf("the source gave %s where mode %q asks for a folder; use mode \"file\"", kind(info.Mode()), mode)
	}
	in := &inspection{root: out, cfg: cfg, child: st.child, links: map[inode]int{}}
	if err := walk(out, wire.OutName, in.visit); err != nil {
		return fmt.Errorf("inspect the fetched files: %w", err)
	}
	return in.finish()
}

// inspection is one look at a fetched tree.
type inspection struct {
	root  *os.Root
	cfg   Config
	child identity
	bytes int64
	links map[inode]int // by file, the number of its hard links that were not found yet
}

func (in *inspection) visit(name string, info os.FileInfo) error {
	shown := strings.TrimPrefix(strings.TrimPrefix(name, wire.OutName), "/")
	m := info.Mode()
	strict := !in.cfg.DisableArtifactInspection
	switch {
	case m.IsRegular():
		if strict && m&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			return errdefs.InvalidArgumentf("%q is setuid or setgid; take the bit away in the source", shown)
		}
		in.bytes += info.Size()
		if l := in.cfg.Limits; l.HTTPMaxBytes > 0 && l.UnpackMaxBytes > 0 && in.bytes > l.HTTPMaxBytes+l.UnpackMaxBytes {
			return errdefs.InvalidArgumentf("the artifact has more than %d bytes; raise artifact.http_max_size or decompression_size_limit of the agent", l.HTTPMaxBytes+l.UnpackMaxBytes)
		}
		if id, n := inodeOf(info); n > 1 {
			if _, seen := in.links[id]; !seen {
				in.links[id] = n
			}
			in.links[id]--
		}
	case m.IsDir():
	case m&fs.ModeSymlink != 0:
		if strict {
			return in.checkLink(name, shown)
		}
		return in.child.disownLink(in.root, name)
	default:
		if strict {
			return errdefs.InvalidArgumentf("%q is %s; an artifact holds files, folders and links only", shown, kind(m))
		}
	}
	if err := in.child.disown(in.root, name); err != nil {
		return fmt.Errorf("take over %q: %w", shown, err)
	}
	perm := m.Perm()
	if m.IsDir() {
		perm |= 0o700
	}
	if m.IsRegular() || m.IsDir() {
		if err := in.root.Chmod(name, perm); err != nil {
			return fmt.Errorf("set the permissions of %q: %w", shown, err)
		}
	}
	return nil
}

// checkLink rejects a link that is absolute or leaves the tree, either by its text or
// when followed.
func (in *inspection) checkLink(name, shown string) error {
	target, err := in.root.Readlink(name)
	if err != nil {
		return fmt.Errorf("read the link %q: %w", shown, err)
	}
	bad := errdefs.InvalidArgumentf("the link %q points outside of the artifact (to %q); make it relative and keep it inside, or set artifact.disable_artifact_inspection of the agent", shown, target)
	if path.IsAbs(target) || !within(path.Join(path.Dir(name), target), wire.OutName) {
		return bad
	}
	out, err := in.root.OpenRoot(wire.OutName)
	if err != nil {
		return fmt.Errorf("open the fetched file: %w", err)
	}
	defer func() { _ = out.Close() }()
	if _, err := out.Stat(strings.TrimPrefix(name, wire.OutName+"/")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return bad // it leaves through another link, or circles
	}
	return in.child.disownLink(in.root, name)
}

// finish rejects files with hard links outside the tree: giving such a file to the
// task's user would also give access to the outside file.
func (in *inspection) finish() error {
	for _, left := range in.links {
		if left != 0 {
			return errdefs.InvalidArgumentf("the artifact has a hard link to a file outside of it; copy the file instead")
		}
	}
	return nil
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeDevice != 0:
		return "a device node"
	case m&fs.ModeNamedPipe != 0:
		return "a fifo"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}
