// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package cgroup

import "testing"

func TestInputAndOutputIsSummedOverBlockDevices(t *testing.T) {
	const stat = "254:0 rbytes=4096 wbytes=10 rios=1 wios=2 dbytes=7 dios=7\n8:0 rbytes=4 wbytes=0 rios=3 wios=0 dbytes=0 dios=0\n"
	if got, want := *sumIO(stat), (IO{ReadBytes: 4100, WrittenBytes: 10, Reads: 4, Writes: 2}); got != want {
		t.Errorf("io.stat: %+v, want %+v", got, want)
	}
	if got := *sumIO(""); got != (IO{}) {
		t.Errorf("an empty io.stat: %+v", got)
	}
}
