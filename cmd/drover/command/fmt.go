// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/core/jobspec"
)

func format() spec {
	return spec{
		usage: "fmt [options] [<path>...]", synopsis: "Formats job and agent configuration files", max: -1, offline: true,
		help: "Without a path the files of the current directory are formatted; - means standard input.",
		setup: func(flags *flag.FlagSet) run {
			list := flags.Bool("list", true, "Prints the names of the files whose format changes.")
			write := flags.Bool("write", true, "Writes the result to the files.")
			check := flags.Bool("check", false, "Writes nothing; exits with 1 if a file would change.")
			recursive := flags.Bool("recursive", false, "Also formats files in subdirectories.")
			return func(_ context.Context, s *session, args []string) error {
				if len(args) == 0 {
					args = []string{"."}
				}
				if len(args) == 1 && args[0] == "-" {
					return formatStdin(s)
				}
				files, err := formatted(args, *recursive)
				if err != nil {
					return err
				}
				changed := false
				for _, file := range files {
					did, err := formatFile(file, *write && !*check)
					if err != nil {
						return err
					}
					changed = changed || did
					if did && *list {
						s.printf("%s", file)
					}
				}
				if changed && *check {
					return &exitCode{code: exitError}
				}
				return nil
			}
		},
	}
}

func formatStdin(s *session) error {
	src, err := readFile("-", s.In)
	if err != nil {
		return err
	}
	out, err := jobspec.Format(src, "stdin")
	if err != nil {
		return err
	}
	_, err = s.Out.Write(out)
	return err
}

// formatted lists the job files and agent configuration files under paths.
func formatted(paths []string, recursive bool) ([]string, error) {
	var out []string
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, fmt.Errorf("cannot format: %w", err)
		}
		if !info.IsDir() {
			out = append(out, root)
			continue
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != root && !recursive:
				return fs.SkipDir
			case !d.IsDir() && (strings.HasSuffix(path, ".hcl") || strings.HasSuffix(path, ".nomad")):
				out = append(out, path)
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("cannot format: %w", err)
		}
	}
	return out, nil
}

func formatFile(path string, write bool) (changed bool, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return false, fmt.Errorf("cannot format: %w", err)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return false, fmt.Errorf("cannot format: %w", err)
	}
	out, err := jobspec.Format(src, path)
	if err != nil || bytes.Equal(src, out) {
		return false, err
	}
	if write {
		if err := os.WriteFile(path, out, info.Mode().Perm()); err != nil {
			return true, fmt.Errorf("cannot format: %w", err)
		}
	}
	return true, nil
}
