// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package dockertest gives tests a private Docker daemon with its own data, socket and network.
// It also has an image to run there and a registry to pull images from. Only tests of
// plugins/driver-docker and test/e2e may import it.
package dockertest
