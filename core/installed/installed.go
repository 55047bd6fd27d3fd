// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package installed finds what is installed beside the agent's executable: its helper
// programs and the folder of plugins. core/config, core/backup and core/agent/artifact
// import it.
package installed

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Beside returns the path of name in the folder of the agent's executable, whether it
// exists or not. A link to the executable is followed first.
func Beside(name string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the agent's executable: %w", err)
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return filepath.Join(filepath.Dir(exe), name), nil
}

// Program returns the path of a helper program: set if that is not empty, otherwise the
// value of an environment variable, otherwise the program beside the executable. It fails with NotFound if
// there is no such file; the error says where it was looked for and what to do.
func Program(name, variable, set string) (string, error) {
	path := cmp.Or(set, os.Getenv(variable))
	if path == "" {
		if runtime.GOOS == "windows" {
			name += ".exe"
		}
		var err error
		if path, err = Beside(name); err != nil {
			return "", err
		}
	}
	if info, err := os.Stat(path); err != nil || info.IsDir() {
		return "", errdefs.NotFoundf("there is no %s at %s; install it beside the agent's executable (`make build` does) or name it in %s", name, path, variable)
	}
	return path, nil
}
