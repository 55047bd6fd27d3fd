// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

func snapshotSave() spec {
	return spec{
		usage: "operator snapshot save [options] [<file>]", synopsis: "Saves a snapshot of the servers' state to a file", max: 1,
		help: "The file is drover-STATE-TIME.snap by default. It is written completely or not at all.",
		setup: func(fs *flag.FlagSet) run {
			stale := fs.Bool("stale", false, "Lets any server answer, even without a leader; the snapshot may be stale.")
			_ = fs.Bool("redact", false, "Has no effect: the keys in a snapshot are always encrypted.")
			return func(ctx context.Context, s *session, args []string) error {
				name := "drover-state-" + time.Now().UTC().Format("20060102-150405") + ".snap"
				if len(args) == 1 {
					name = args[0]
				}
				answer, err := s.client.SaveSnapshot(ctx, *stale)
				if err != nil {
					return err
				}
				defer answer.Body.Close()
				if err := writeWhole(name, answer.Body); err != nil {
					return err
				}
				s.printf("State file written to %v", name)
				return nil
			}
		},
	}
}

// writeWhole writes a new file that gets its name only when it is complete.
func writeWhole(name string, r io.Reader) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s already exists; remove it or name another file", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.part")
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	defer os.Remove(f.Name()) // fails if the file was renamed, which is fine
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return fmt.Errorf("cannot write %s: %w", name, err)
	}
	return nil
}

func snapshotRestore() spec {
	return spec{
		usage: "operator snapshot restore [options] <file>", synopsis: "Replaces the servers' state with a snapshot", min: 1, max: 1, takes: takesFiles,
		help: "All changes since the snapshot are lost. This command is for new servers after a disaster,\nnot for returning servers in use to an earlier state.",
		setup: func(fs *flag.FlagSet) run {
			yes := yesFlag(fs, "the prompt before the state is replaced")
			return func(ctx context.Context, s *session, args []string) error {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("cannot read the snapshot: %w", err)
				}
				defer f.Close()
				if s.InTerminal { // the reference does not ask, and scripts rely on that
					if sure, err := s.confirm(*yes, "Replace the state of %s by %s?", s.client.Address(), args[0]); !sure {
						return err
					}
				}
				if err := s.client.RestoreSnapshot(ctx, bufio.NewReaderSize(f, 1<<20)); err != nil {
					return err
				}
				s.printf("Snapshot Restored")
				return nil
			}
		},
	}
}
