// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package kinds

import (
	"fmt"

	"github.com/drover-project/drover/sdk/plugin"
)

// Choose lets tests see the choice of versions with any that a host might know.
var Choose = choose

// KindText writes kinds as one text.
func KindText(kinds []plugin.Kind) string {
	if len(kinds) == 0 {
		return ""
	}
	return fmt.Sprint(kinds)
}
