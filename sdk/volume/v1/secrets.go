// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"fmt"
	"io"
	"log/slog"
)

// Secrets are the secrets for one call, by name. They do not show when they are printed or
// encoded as JSON.
type Secrets map[string]string

const hidden = "(secrets)"

// Format prints no secret, whatever the verb.
func (Secrets) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue logs no secret.
func (Secrets) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalJSON encodes no secret.
func (Secrets) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }
