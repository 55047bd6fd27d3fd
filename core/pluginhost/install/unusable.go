// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package install

import (
	"bytes"
	"errors"
	"io/fs"
	"os"

	"github.com/drover-project/drover/core/pluginhost/process"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxUnusable limits the list.
const maxUnusable = 50

// Unusable is a file in plugin_dir that looks like a plugin but cannot be run.
type Unusable struct {
	File process.File
	Why  error
}

// Unusable lists the unusable files by name, at most maxUnusable.
func (d Dir) Unusable() []Unusable {
	entries, err := os.ReadDir(d.Path)
	if err != nil {
		return nil // discovery reports the error
	}
	var out []Unusable
	for _, c := range d.candidates(entries) {
		if len(out) == maxUnusable {
			break
		}
		if why := whyUnusable(c.Path); why != nil {
			out = append(out, Unusable{File: c, Why: why})
		}
	}
	return out
}

// whyUnusable returns nil for a plugin, and for a file that was never meant to be one.
func whyUnusable(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if target, err := os.Readlink(path); err == nil {
			return errdefs.FailedPreconditionf("%s is a link to %s, which does not exist; correct or remove it", path, target)
		}
		return nil // it was removed in the meantime
	case err != nil:
		return errdefs.FailedPreconditionf("%s cannot be looked at: %w", path, err)
	case !info.Mode().IsRegular() || executable(info, path) || !isProgram(path):
		return nil
	}
	return errdefs.FailedPreconditionf("%s is a program that nobody may execute (mode %s); if it is a plugin: chmod +x %s", path, info.Mode(), path)
}

// isProgram recognizes an executable by its first bytes.
func isProgram(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := f.Read(head) // a shorter file is not a program
	for _, magic := range []string{"\x7fELF", "#!", "\xcf\xfa\xed\xfe", "MZ"} {
		if bytes.HasPrefix(head[:n], []byte(magic)) {
			return true
		}
	}
	return false
}
