// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package docker contains the black-box tests of the docker driver, on a real dockerd.
// Nobody imports it.
package docker
