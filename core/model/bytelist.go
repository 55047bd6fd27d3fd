// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "strconv"

// ByteList is a list of small numbers whose JSON is a list, not base64 text.
type ByteList []uint8

// MarshalJSON writes [1,2,3], or null for a nil list.
func (l ByteList) MarshalJSON() ([]byte, error) {
	if l == nil {
		return []byte("null"), nil
	}
	out := []byte{'['}
	for i, n := range l {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendUint(out, uint64(n), 10)
	}
	return append(out, ']'), nil
}
