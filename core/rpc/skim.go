// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"encoding/binary"

	"github.com/drover-project/drover/sdk/errdefs"
)

// limits limit a message before it is decoded: one byte of it can become an object of
// a hundred bytes.
type limits struct {
	bytes   int
	objects int // maps and lists
	values  int // of any kind
}

// knownLimits apply to authenticated nodes, strangerLimits to nodes that register for
// the first time.
var (
	knownLimits    = limits{bytes: largestRequest, objects: 400_000, values: 2_000_000}
	strangerLimits = limits{bytes: 5 << 20, objects: 50_000, values: 200_000}
)

// check rejects a message that exceeds the limits or is not valid MessagePack.
func (l limits) check(data []byte) error {
	if len(data) > l.bytes {
		return errdefs.ResourceExhaustedf("the message has %d bytes; at most %d are taken", len(data), l.bytes)
	}
	objects, values := 0, 0
	for at := 0; at < len(data); {
		size, holds := token(data[at:])
		if size == 0 || size > len(data)-at || holds > len(data)-at-size {
			return errdefs.InvalidArgumentf("the message breaks off at byte %d of %d", at, len(data))
		}
		if holds >= 0 {
			objects++
		}
		if values++; values > l.values || objects > l.objects {
			return errdefs.ResourceExhaustedf("the message holds more than %d objects or %d values", l.objects, l.values)
		}
		at += size
	}
	return nil
}

// token returns the size of the value at the start of data, 0 if it is invalid. For a
// map or an array size is the size of its header and holds the number of values in it;
// for other values holds is -1.
func token(data []byte) (size, holds int) {
	switch b := data[0]; {
	case b <= 0x7f || b >= 0xe0: // the code is a small number itself
		return 1, -1
	case b <= 0x8f:
		return 1, 2 * int(b&0x0f)
	case b <= 0x9f:
		return 1, int(b & 0x0f)
	case b <= 0xbf:
		return 1 + int(b&0x1f), -1
	}
	switch data[0] {
	case 0xc0, 0xc2, 0xc3: // nil, false, true
		return 1, -1
	case 0xc4, 0xd9:
		return counted(data, 1, 0), -1
	case 0xc5, 0xda:
		return counted(data, 2, 0), -1
	case 0xc6, 0xdb:
		return counted(data, 4, 0), -1
	case 0xc7, 0xc8, 0xc9: // extensions, with a byte of kind
		return counted(data, 1<<(data[0]-0xc7), 1), -1
	case 0xcc, 0xd0:
		return 2, -1
	case 0xcd, 0xd1:
		return 3, -1
	case 0xca, 0xce, 0xd2:
		return 5, -1
	case 0xcb, 0xcf, 0xd3:
		return 9, -1
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return 2 + 1<<(data[0]-0xd4), -1
	case 0xdc, 0xdd:
		return head(data, 2<<(data[0]-0xdc), 1)
	case 0xde, 0xdf:
		return head(data, 2<<(data[0]-0xde), 2)
	}
	return 0, -1
}

// counted returns the size of a string or binary whose length field has width bytes.
func counted(data []byte, width, more int) int {
	n, ok := number(data, width)
	if !ok {
		return 0
	}
	return 1 + width + more + n
}

// head returns the size of an array header (each is 1) or map header (each is 2) whose
// length field has width bytes, and the number of values.
func head(data []byte, width, each int) (size, holds int) {
	n, ok := number(data, width)
	if !ok {
		return 0, -1
	}
	return 1 + width, each * n
}

func number(data []byte, width int) (int, bool) {
	if len(data) < 1+width {
		return 0, false
	}
	var whole [8]byte
	copy(whole[8-width:], data[1:1+width])
	return int(binary.BigEndian.Uint64(whole[:])), true
}
