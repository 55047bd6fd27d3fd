// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func allocFS() spec {
	return spec{
		usage: "alloc fs [options] <allocation> [<path>]", synopsis: "Lists a directory of an allocation or prints a file", min: 1, max: 2, takes: "allocs",
		setup: func(fs *flag.FlagSet) run {
			o := &source{}
			o.declare(fs)
			stat := fs.Bool("stat", false, "Describes the file instead of printing it.")
			exact := fs.Bool("H", false, "Prints sizes in bytes instead of human-readable units.")
			return func(ctx context.Context, s *session, args []string) error {
				a, err := o.alloc(ctx, s, args[0], "")
				if err != nil {
					return err
				}
				path := "/"
				if len(args) == 2 {
					path = args[1]
				}
				info, err := s.client.StatFile(ctx, a.ID, path)
				if err != nil {
					return err
				}
				switch {
				case *stat:
					s.fileTable([]*model.FileInfo{info}, *exact)
					return nil
				case info.IsDir:
					list, err := s.client.ListFiles(ctx, a.ID, path)
					if err != nil {
						return err
					}
					s.fileTable(list, *exact)
					return nil
				case !o.follow && !o.tail && o.lines < 0 && o.bytes < 0:
					return s.printFile(ctx, a.ID, path)
				}
				return o.copy(ctx, s, s.fileReader(a.ID, path), s.Out)
			}
		},
	}
}

func (s *session) fileReader(allocID, path string) reader {
	return func(ctx context.Context, follow bool, origin string, offset int64, each func(*model.StreamFrame) error) error {
		return s.client.StreamFile(ctx, &api.FileStreamRequest{AllocID: allocID, Path: path, Follow: follow, Origin: origin, Offset: offset}, each)
	}
}

func (s *session) printFile(ctx context.Context, allocID, path string) error {
	body, err := s.client.ReadFile(ctx, allocID, path, 0, -1)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(s.Out, body)
	return err
}

func (s *session) fileTable(list []*model.FileInfo, exact bool) {
	var rows [][]string
	for _, f := range list {
		name, size := f.Name, humanize.IBytes(uint64(max(f.Size, 0)))
		if f.IsDir {
			name += "/"
		}
		if exact {
			size = text(f.Size)
		}
		rows = append(rows, []string{f.FileMode, size, when(f.ModTime), f.ContentType, name})
	}
	s.table([]string{"Mode", "Size", "Modified Time", "Content Type", "Name"}, rows)
}
