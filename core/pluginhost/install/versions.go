// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

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
	"runtime"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// VersionsConfig configures Versions; all of it is required.
type VersionsConfig struct {
	Dir string // where the versions are kept
	// FetchTimeout and MaxSize, in bytes, limit what is fetched.
	FetchTimeout time.Duration
	MaxSize      int64
	Works        *Works // is told of the progress
}

// Versions is the directory of stored versions: NAME/HEX/NAME is the file of plugin
// NAME with SHA-256 HEX. The file keeps its name because one binary may contain many
// plugins and select one by its name.
type Versions struct {
	cfg     VersionsConfig
	digests digests
}

// NewVersions returns the versions in a directory, which need not exist yet.
func NewVersions(cfg VersionsConfig) *Versions { return &Versions{cfg: cfg} }

// Digest returns "sha256:HEX" of the file behind path. The file is read again only
// after it was replaced.
func (v *Versions) Digest(path string) (string, error) { return v.digests.of(path) }

func (v *Versions) path(name, digest string) string {
	return filepath.Join(v.cfg.Dir, name, strings.TrimPrefix(digest, digestPrefix), name+exeSuffix())
}

func exeSuffix() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// Has returns the path of a stored, intact version.
func (v *Versions) Has(name, digest string) (string, bool) {
	if digest == "" {
		return "", false
	}
	path := v.path(name, digest)
	got, err := v.digests.of(path)
	return path, err == nil && got == digest
}

// Keep stores a file as a version, as a hard link if the file system supports it,
// otherwise as a copy.
func (v *Versions) Keep(name, digest, from string) (string, error) {
	if path, ok := v.Has(name, digest); ok {
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
	got, err := v.digests.of(path)
	if err != nil {
		return "", err
	}
	if got != digest {
		_ = os.RemoveAll(filepath.Dir(path)) // it was changed meanwhile
		return "", errdefs.Abortedf("keep a version of plugin %q: its file %s was changed meanwhile", name, from)
	}
	return path, nil
}

// Prune removes all versions of a plugin except the given ones.
func (v *Versions) Prune(name string, digests ...string) {
	keep := map[string]bool{}
	for _, d := range digests {
		keep[strings.TrimPrefix(d, digestPrefix)] = true
	}
	entries, err := os.ReadDir(filepath.Join(v.cfg.Dir, name))
	if err != nil {
		return // none is kept
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			_ = os.RemoveAll(filepath.Join(v.cfg.Dir, name, e.Name())) // tried again at the next prune
		}
	}
	_ = os.Remove(filepath.Join(v.cfg.Dir, name)) // it goes if it is empty
}

// Sweep removes the remains of a killed agent: partly fetched files, and versions whose
// digests are not in keep, which is keyed by plugin. It must be called before any plugin
// runs.
func (v *Versions) Sweep(keep map[string][]string) {
	entries, err := os.ReadDir(v.cfg.Dir)
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		if digests, ok := keep[e.Name()]; ok {
			v.Prune(e.Name(), digests...)
			continue
		}
		_ = os.RemoveAll(filepath.Join(v.cfg.Dir, e.Name())) // tried again at the next start
	}
}

// Obtain returns the path of the release's file among the versions, which it fetches,
// or takes from body, if it is not there.
func (v *Versions) Obtain(ctx context.Context, r Release, body io.Reader) (path, digest string, err error) {
	if path, ok := v.Has(r.Name, r.Digest); ok {
		return path, r.Digest, nil
	}
	temp, digest, err := v.fetch(ctx, r, body)
	if err != nil {
		return "", "", err
	}
	defer os.Remove(temp) // it is linked, or of no use
	v.cfg.Works.Step(r.Name, StepVerifying, 0)
	path, err = v.Keep(r.Name, digest, temp)
	return path, digest, err
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

// diskError adds a class to an error of the file system.
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

// checkDigest rejects text that is not a digest.
func checkDigest(digest string) error {
	raw, err := hex.DecodeString(strings.TrimPrefix(digest, digestPrefix))
	if !strings.HasPrefix(digest, digestPrefix) || err != nil || len(raw) != sha256.Size || strings.ToLower(digest) != digest {
		return errdefs.InvalidArgumentf("the digest %q is none: it must be %sHEX with 64 lower-case digits, as `sha256sum FILE` prints", digest, digestPrefix)
	}
	return nil
}
