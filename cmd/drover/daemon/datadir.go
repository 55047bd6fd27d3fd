// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// makeDataDir creates the data directory. A dev agent without a configured one gets
// a temporary directory.
func (d *Daemon) makeDataDir() (err error) {
	if d.dataDir == "" {
		d.scratch = true
		if d.dataDir, err = os.MkdirTemp("", "drover-dev-"); err != nil {
			return fmt.Errorf("no scratch directory can be made; set TMPDIR or -data-dir to a directory that can be written: %w", err)
		}
		return os.Chmod(d.dataDir, 0o711)
	}
	err = os.MkdirAll(d.dataDir, 0o711)
	if err == nil {
		err = mayWrite(d.dataDir)
	}
	if err != nil {
		return fmt.Errorf("the data directory %s cannot be used, nothing was changed; set data_dir (-data-dir) to a directory on a disk that can be written, by this user: %w", d.dataDir, err)
	}
	return nil
}

// mayWrite tries whether a directory can be written. A full disk is no error here: a server
// starts on one and can be asked.
func mayWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".writable-")
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return err
	} else if err != nil {
		return nil // whoever writes says what is wrong
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
