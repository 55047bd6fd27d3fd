// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package proto holds the contracts as .proto files, for plugins in languages other than
// Go. It owns no code for them. cmd/drover, which writes the files, imports it.
package proto

import "embed"

// Files has the .proto files, as KIND/v1/KIND.proto.
//
//go:embed */v*/*.proto
var Files embed.FS
