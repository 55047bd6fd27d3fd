// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dockertest gives tests a Docker daemon of their own, with its own data,
// socket and network, an image to run in it, and a registry to fetch images from.
// It owns no check. Only tests of plugins/driver-docker and of test/e2e import it.
package dockertest
