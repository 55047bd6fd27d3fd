// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/cmd/drover/protocheck"
	"github.com/drover-project/drover/sdk/proto"
)

func pluginProto() spec {
	return spec{
		usage: "plugin proto [options]", synopsis: "Writes the .proto files of the plugin contracts, or checks a copy of them", offline: true,
		help: "The files are for plugins in languages other than Go. Contracts change only by additions, so a copy stays usable:\n" +
			"-check says what hosts and plugins of a copy and of this version would not understand of each other, and -lint\n" +
			"whether each field has a comment and each number a unit. Both end with code 1 if they found something.",
		setup: func(fs *flag.FlagSet) run {
			dir := fs.String("dir", "proto", "Directory into which the files are written.")
			check := fs.String("check", "", "Directory with a copy of the contracts that is compared with this version; nothing is written.")
			lint := fs.String("lint", "", "Directory with .proto files that are checked by themselves; nothing is written.")
			return func(ctx context.Context, s *session, _ []string) error {
				switch {
				case *check != "" && *lint != "":
					return errors.New("-check and -lint are two different questions; ask one at a time")
				case *check != "":
					return s.checkProtos(ctx, *check)
				case *lint != "":
					return s.lintProtos(ctx, *lint)
				}
				return s.writeProtos(*dir)
			}
		},
	}
}

func (s *session) writeProtos(dir string) error {
	return fs.WalkDir(proto.Files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		body, err := fs.ReadFile(proto.Files, path)
		if err != nil {
			return fmt.Errorf("read the protos: %w", err)
		}
		to := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return fmt.Errorf("write the protos: %w", err)
		}
		if err := os.WriteFile(to, body, 0o644); err != nil {
			return fmt.Errorf("write the protos: %w", err)
		}
		s.printf("wrote %s", to)
		return nil
	})
}

func (s *session) checkProtos(ctx context.Context, dir string) error {
	compared, breaks, err := protocheck.Breaks(ctx, os.DirFS(dir))
	if err != nil {
		return err
	}
	for _, b := range breaks {
		s.printf("%s", b)
	}
	if len(breaks) > 0 {
		return fmt.Errorf("the contracts in %s do not fit those of this version in %d places; take the files of `drover plugin proto`", dir, len(breaks))
	}
	s.printf("%s: fit this version", strings.Join(compared, ", "))
	return nil
}

func (s *session) lintProtos(ctx context.Context, dir string) error {
	problems, err := protocheck.Lint(ctx, os.DirFS(dir))
	if err != nil {
		return err
	}
	for _, p := range problems {
		s.printf("%s", p)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d problems in the protos of %s", len(problems), dir)
	}
	s.printf("no problems")
	return nil
}
