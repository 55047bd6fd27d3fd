// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux && !(amd64 || arm64)

package isolation

// loader returns nil: the program is not implemented for this architecture.
func loader() []byte { return nil }
