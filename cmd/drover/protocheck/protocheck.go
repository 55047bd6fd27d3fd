// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package protocheck checks .proto files: whether they say what each field means (Lint),
// and whether a copy of the contracts can still talk to this version's contracts (Breaks).
// It owns the rules of lint; the rules of compatibility are in sdk/wirecompat. The command
// `drover plugin proto` and internal/repotest import it.
package protocheck

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protodesc"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/proto"
	"github.com/drover-project/drover/sdk/wirecompat"
)

// compile compiles all .proto files of a directory, by their paths in it.
func compile(ctx context.Context, dir fs.FS) (map[string]linker.File, error) {
	var paths []string
	err := fs.WalkDir(dir, ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".proto") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the protos: %w", err)
	}
	if len(paths) == 0 {
		return nil, errdefs.NotFoundf("there is no .proto file; name the directory that has driver/v1/driver.proto or others")
	}
	c := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(path string) (io.ReadCloser, error) { return dir.Open(path) },
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := c.Compile(ctx, paths...)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("compile the protos: %w", err)
	}
	out := make(map[string]linker.File, len(files))
	for _, f := range files {
		out[f.Path()] = f
	}
	return out, nil
}

// Breaks lists the changes between the contracts in dir and this version's that plugins or
// hosts would not understand. It also returns the contracts that it compared.
func Breaks(ctx context.Context, dir fs.FS) (compared, breaks []string, err error) {
	theirs, err := compile(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	ours, err := compile(ctx, proto.Files)
	if err != nil {
		return nil, nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(theirs)) {
		is := ours[path]
		if is == nil {
			continue
		}
		compared = append(compared, path)
		for _, b := range wirecompat.Breaks(protodesc.ToFileDescriptorProto(theirs[path]), protodesc.ToFileDescriptorProto(is)) {
			breaks = append(breaks, path+": "+b)
		}
	}
	if len(compared) == 0 {
		return nil, nil, errdefs.NotFoundf("none of the .proto files is a contract of Drover; they are %s", strings.Join(slices.Sorted(maps.Keys(ours)), ", "))
	}
	return compared, breaks, nil
}
