// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agent

import "time"

// CutOff is cutOff by the ids of allocs and their limits.
func CutOff(now, heard time.Time, lease time.Duration, limits map[string]time.Duration) (over []string, next time.Time) {
	var allocs []limited
	for id, after := range limits {
		allocs = append(allocs, limited{id, after})
	}
	list, next := cutOff(now, heard, lease, allocs)
	for _, x := range list {
		over = append(over, x.id)
	}
	return over, next
}
