// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// versions is the directory of stored versions: NAME/HEX/NAME is the file of plugin
// NAME with SHA-256 HEX. The file keeps its name because one binary may contain many
// plugins and select one by its name.
type versions struct{ dir string }

func (v versions) path(name, digest string) string {
	return filepath.Join(v.dir, name, strings.TrimPrefix(digest, digestPrefix), name+exeSuffix())
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// has returns the path of a stored, intact version.
func (v versions) has(name, digest string, sums *digests) (string, bool) {
	if digest == "" {
		return "", false
	}
	path := v.path(name, digest)
	got, err := sums.of(path)
	return path, err == nil && got == digest
}

// keep stores a file as a version, as a hard link if the file system supports it,
// otherwise as a copy.
func (v versions) keep(name, digest, from string, sums *digests) (string, error) {
	if path, ok := v.has(name, digest, sums); ok {
		return path, nil
	}
	path := v.path(name, digest)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", diskError(err, "make the directory of plugin versions")
	}
	from, err := filepath.EvalSymlinks(from)
	if err != nil {
		return "", errdefs.NotFoundf("keep a version of plugin %q: %w", name, err)
	}
	if err := place(from, path, "new"); err != nil {
		return "", err
	}
	got, err := sums.of(path)
	if err != nil {
		return "", err
	}
	if got != digest {
		_ = os.RemoveAll(filepath.Dir(path)) // it was changed meanwhile
		return "", errdefs.Abortedf("keep a version of plugin %q: its file %s was changed meanwhile", name, from)
	}
	return path, nil
}

// prune removes all versions of a plugin but those.
func (v versions) prune(name string, digests ...string) {
	keep := map[string]bool{}
	for _, d := range digests {
		keep[strings.TrimPrefix(d, digestPrefix)] = true
	}
	entries, err := os.ReadDir(filepath.Join(v.dir, name))
	if err != nil {
		return // none is kept
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			_ = os.RemoveAll(filepath.Join(v.dir, name, e.Name())) // tried again at the next prune
		}
	}
	_ = os.Remove(filepath.Join(v.dir, name)) // it goes if it is empty
}

// place puts the file at from at the path to, atomically, as a hard link or a copy,
// and replaces what is there. mark makes the temporary name unique, because several
// agents may share a plugin_dir.
func place(from, to, mark string) error {
	temp := filepath.Join(filepath.Dir(to), "."+filepath.Base(to)+"."+mark)
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(err, "put the plugin into "+filepath.Dir(to))
	}
	if err := os.Link(from, temp); err != nil {
		if err := copyFile(from, temp); err != nil {
			_ = os.Remove(temp) // the copy's error counts
			return err
		}
	}
	if err := os.Rename(temp, to); err != nil {
		_ = os.Remove(temp) // the rename's error counts
		return diskError(err, "put the plugin into "+filepath.Dir(to))
	}
	return nil
}

// copyFile copies an executable with its time, so that it has the same identity.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return errdefs.NotFoundf("copy a plugin: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return fmt.Errorf("copy a plugin: %w", err)
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return diskError(err, "copy a plugin")
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Sync()
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Chmod(to, 0o755) // whatever the umask
	}
	if err == nil {
		err = os.Chtimes(to, info.ModTime(), info.ModTime())
	}
	if err != nil {
		return diskError(err, "copy a plugin")
	}
	return nil
}

// diskError classes what the file system said.
func diskError(err error, what string) error {
	switch {
	case isDiskFull(err):
		return errdefs.ResourceExhaustedf("%s: the disk is full; make room and try again: %w", what, err)
	case errors.Is(err, fs.ErrPermission), isReadOnly(err):
		return errdefs.FailedPreconditionf("%s: the agent may not write there; see the rights of the directory and how its file system is mounted: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}

const digestPrefix = "sha256:"

// checkDigest refuses what is no digest.
func checkDigest(digest string) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(digest, digestPrefix))
	if !strings.HasPrefix(digest, digestPrefix) || err != nil || len(raw) != sha256.Size || strings.ToLower(digest) != digest {
		return errdefs.InvalidArgumentf("the digest %q is none: it must be %sHEX with 64 lower-case digits, as `sha256sum FILE` prints", digest, digestPrefix)
	}
	return nil
}
