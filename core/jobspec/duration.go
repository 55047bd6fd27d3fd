// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration whose JSON is read as nanoseconds or as text such as
// "30s", and written as nanoseconds.
type Duration int64

// UnmarshalJSON accepts both forms.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil:
		return nil
	case float64:
		var n int64
		if err := json.Unmarshal(b, &n); err != nil {
			return fmt.Errorf("duration %s is not a whole number of nanoseconds", b)
		}
		*d = Duration(n)
		return nil
	case string:
		parsed, err := time.ParseDuration(v)
		if err != nil {
			return fmt.Errorf("duration %q: write a number with a unit, such as \"30s\" or \"5m\"", v)
		}
		*d = Duration(parsed)
		return nil
	}
	return fmt.Errorf("duration %s: write text such as \"30s\" or a number of nanoseconds", b)
}
