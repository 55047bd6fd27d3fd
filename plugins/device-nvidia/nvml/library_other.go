// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build !linux || !(amd64 || arm64)

package nvml

import (
	"runtime"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Open fails: GPUs are supported on Linux only.
func Open(string) (Library, error) {
	return nil, errdefs.NotFoundf("NVIDIA GPUs are supported on Linux on amd64 and arm64, not on %s/%s", runtime.GOOS, runtime.GOARCH)
}
