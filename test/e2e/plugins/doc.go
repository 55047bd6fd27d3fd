// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package plugins contains the black-box tests of plugins as operators and authors
// meet them: installation, upgrades, the registry, and plugins written by others.
// Nobody imports it.
package plugins
