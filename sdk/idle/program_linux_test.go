// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package idle

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestOnlyAreasThatAreSurelyTheFilesAreReleased(t *testing.T) {
	const smaps = `00400000-01873000 r-xp 00000000 08:01 77 /opt/drover
Rss:               17932 kB
Anonymous:             0 kB
01873000-0302b000 r--p 01473000 08:01 77 /opt/drover
Rss:               19744 kB
Anonymous:             0 kB
0302b000-030fa000 rw-p 02c2b000 08:01 77 /opt/drover
Anonymous:             0 kB
03100000-03200000 r--p 02c2b000 08:01 77 /opt/drover
Anonymous:             4 kB
03200000-03300000 r--s 02c2b000 08:01 77 /opt/drover
Anonymous:             0 kB
04200000-04300000 r--p 00000000 08:01 78 /opt/drover/plugins
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:          4096 kB
ffff-0 r--p 00000000 08:01 77 /opt/drover
Anonymous:             0 kB
`
	want := []area{{0x400000, 0x1873000}, {0x1873000, 0x302b000}}
	if got := programAreas(strings.NewReader(smaps), "/opt/drover"); !slices.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func TestAProcessRunsOnAfterItsProgramWasReleased(t *testing.T) {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(programAreas(strings.NewReader(string(raw)), program)) == 0 {
		t.Errorf("nothing of the program would be released:\n%s", raw)
	}
	for range 3 {
		Release()
	}
	if again, err := os.Readlink("/proc/self/exe"); err != nil || again != program {
		t.Errorf("%s, %v", again, err)
	}
}
