// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pilot

// Yield is yield.
var Yield = yield
