// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

// MayGrow reports whether this process may enlarge a mounted file system of ext4.
var MayGrow = mayGrow
