// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

// NewCommand returns an empty command of the kind, nil if there is none.
var NewCommand = newCommand
