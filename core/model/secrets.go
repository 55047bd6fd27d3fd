// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"fmt"
	"io"
)

// VolumeSecrets are secrets for a call to a storage plugin, by name. They do not show when
// they are printed or logged. They do in JSON, which brings them to nodes: what a client
// reads back must not contain them.
type VolumeSecrets map[string]string

const hiddenSecrets = "(secrets)"

// Format prints no secret, whatever the verb.
func (VolumeSecrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hiddenSecrets) }
