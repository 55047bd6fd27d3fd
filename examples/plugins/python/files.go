// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package python contains the files of the example driver in Python, from which
// `drover plugin new -lang python` makes a new one. cmd/drover/scaffold imports it.
package python

import "embed"

// Files are the files of the example, without what is built of them.
//
//go:embed Makefile README.md example.nomad.hcl driver/*.py
var Files embed.FS
