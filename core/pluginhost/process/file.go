// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package process

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/drover-project/drover/sdk/errdefs"
)

// File is one plugin executable.
type File struct {
	Name string // without a suffix; also the name of the plugin
	Path string // its path in plugin_dir, which may not exist yet
	// Stored is the path of a copy that is executed instead of Path: of a version on trial,
	// or of a version whose file was removed from plugin_dir.
	Stored string
	// Of is the plugin of which this is an instance, for one storage driver: the same
	// executable with a name and a config of its own. "" for a plugin itself.
	Of string
	// Serves is the name under which an instance is called, and Config its config.
	Serves string
	Config map[string]any
}

// Block returns the name of the block in the agent's configuration that sets the rights and
// the arguments of the processes.
func (f File) Block() string { return cmp.Or(f.Of, f.Name) }

// Binary returns the path of the file that is executed.
func (f File) Binary() string {
	if f.Stored != "" {
		return f.Stored
	}
	return f.Path
}

// check rejects a file that another user could have put there, because plugins run
// with the rights of the agent.
func (f File) check() error {
	if runtime.GOOS == "windows" {
		return nil
	}
	for _, path := range []string{f.Binary(), filepath.Dir(f.Binary())} {
		info, err := os.Stat(path)
		if err != nil {
			return errdefs.FailedPreconditionf("plugin %s: %w", f.Path, err)
		}
		if info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
			return errdefs.PermissionDeniedf("plugin %s: every user may write to %s; take that right away with chmod o-w", f.Path, path)
		}
	}
	return nil
}

// Identity returns a text that changes when the file behind path is replaced; "" if
// there is none.
func Identity(path string) string {
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d-%d", info.Size(), info.ModTime().UnixNano())
}
