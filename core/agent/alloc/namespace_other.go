// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !unix

package alloc

// namespaceID knows no namespaces: this system has none.
func namespaceID(string) string { return "" }
