// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package durable_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/durable"
)

func TestMappedFilesAreGivenBackAndKeepWhatWasWritten(t *testing.T) {
	dir := t.TempDir()
	mapped := func(name string) ([]byte, string) {
		path := filepath.Join(dir, name)
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := f.Truncate(1 << 20); err != nil {
			t.Fatal(err)
		}
		data, err := unix.Mmap(int(f.Fd()), 0, 1<<20, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(data) })
		copy(data, bytes.Repeat([]byte("drover"), 1<<20/6))
		return data, path
	}
	if err := os.Mkdir(filepath.Join(dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	data, path := mapped("store/a.sst")
	_, other := mapped("store.other")
	if err := unix.Msync(data, unix.MS_SYNC); err != nil {
		t.Fatal(err)
	}
	if r := resident(t, path); r < 1<<20 {
		t.Fatalf("%d bytes of the file are resident before", r)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("store", link); err != nil {
		t.Fatal(err)
	}
	if err := durable.GiveBackMappings(link); err != nil {
		t.Fatal(err)
	}
	if r := resident(t, path); r > 1<<18 {
		t.Errorf("%d bytes of the file are resident", r)
	}
	if r := resident(t, other); r < 1<<20 {
		t.Errorf("of a file elsewhere only %d bytes are resident", r)
	}
	if !bytes.HasPrefix(data, []byte("droverdrover")) {
		t.Errorf("the file reads %q", data[:12])
	}
}

// resident returns the bytes of the mapping of a file that are in memory.
func resident(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(raw), path+"\n")
	if !found {
		t.Fatalf("%s is not mapped", path)
	}
	for line := range strings.Lines(rest) {
		if f := strings.Fields(line); f[0] == "Rss:" {
			kb, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb << 10
		}
	}
	t.Fatal("no Rss")
	return 0
}
