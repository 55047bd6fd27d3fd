// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package supervisor_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// rss returns the resident memory of a process in bytes.
func rss(tb testing.TB, pid int) int {
	tb.Helper()
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/statm")
	if err != nil {
		tb.Fatal(err)
	}
	pages, err := strconv.Atoi(strings.Fields(string(raw))[1])
	if err != nil {
		tb.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestABinaryLineOfAHundredMegabytesIsKeptWholeInBoundedMemory(t *testing.T) {
	r := newRig(t)
	const size = 100 << 20
	pattern := make([]byte, 1<<16)
	for i := range pattern {
		pattern[i] = byte(i * 7 >> 3)
		if pattern[i] == '\n' {
			pattern[i] = 0
		}
	}
	r.must(os.WriteFile(filepath.Join(r.root, "pattern"), pattern, 0o644))
	spec := r.sh("a", fmt.Sprintf("i=0; while [ $i -lt %d ]; do cat pattern; i=$((i+1)); done", size/len(pattern)))
	spec.Logs.MaxFiles, spec.Logs.MaxFileBytes = 11, 10<<20
	before := rss(t, r.hello().PID)
	_, err := r.Start(r.ctx, spec)
	r.must(err)
	if e := r.wait("a"); e.Code != 0 {
		t.Fatalf("exit %+v", e)
	}
	total := 0
	for i := range 11 {
		raw := []byte(r.log("a.stdout." + strconv.Itoa(i)))
		for at := 0; at < len(raw); at += len(pattern) {
			// Files are cut at multiples of the pattern.
			if !bytes.Equal(raw[at:min(at+len(pattern), len(raw))], pattern[:min(len(pattern), len(raw)-at)]) {
				t.Fatalf("file %d differs after %d bytes", i, at)
			}
		}
		total += len(raw)
	}
	if total != size {
		t.Fatalf("%d bytes of %d are in the files", total, size)
	}
	if after := rss(t, r.hello().PID); after > before+16<<20 {
		t.Fatalf("the supervisor grew from %d to %d bytes", before, after)
	}
}

// smallDisk mounts a small file system over the log directory.
func (r *rig) smallDisk(options string) {
	r.t.Helper()
	dir := filepath.Join(r.root, "alloc/logs")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		r.t.Skipf("a full disk needs the right to mount: %v", err)
	}
	r.t.Cleanup(func() { r.must(syscall.Unmount(dir, syscall.MNT_DETACH)) })
}

func TestADiskThatFillsWhileLogsRotateEndsNoTaskAndIsUsedAgainWhenItHasRoom(t *testing.T) {
	r := newRig(t)
	r.smallDisk("size=256k")
	ballast := filepath.Join(r.root, "alloc/logs/ballast")
	r.must(os.WriteFile(ballast, make([]byte, 200<<10), 0o600))
	spec := r.sh("a", `head -c 2000000 /dev/zero; echo full; while [ ! -e go ]; do sleep 0.01; done; echo again; exit 4`)
	spec.Logs.MaxFiles, spec.Logs.MaxFileBytes = 3, 32<<10
	_, err := r.Start(r.ctx, spec)
	r.must(err)
	r.eventually("output is dropped", func() bool {
		s, err := r.Inspect(r.ctx, "a")
		return err == nil && s.DroppedLogBytes > 100_000
	})
	r.must(os.Remove(ballast))
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	if e := r.wait("a"); e.Code != 4 {
		t.Fatalf("exit %+v", e)
	}
	kept := ""
	for i := range 200 {
		kept += r.log("a.stdout." + strconv.Itoa(i))
	}
	if !strings.HasSuffix(kept, "again\n") {
		t.Fatalf("what was written after there was room is not kept; %d bytes are", len(kept))
	}
}

func TestADiskWithoutInodesEndsNoTask(t *testing.T) {
	r := newRig(t)
	r.smallDisk("size=4m,nr_inodes=4") // the directory, two logs, one more
	spec := r.sh("a", `head -c 1000000 /dev/zero; exit 4`)
	spec.Logs.MaxFiles, spec.Logs.MaxFileBytes = 20, 64<<10
	_, err := r.Start(r.ctx, spec)
	r.must(err)
	if e := r.wait("a"); e.Code != 4 {
		t.Fatalf("exit %+v", e)
	}
	s, err := r.Inspect(r.ctx, "a")
	r.must(err)
	if s.DroppedLogBytes == 0 || s.DroppedLogBytes > 1_000_000 {
		t.Fatalf("dropped %d bytes", s.DroppedLogBytes)
	}
	if !strings.Contains(s.LogError, "a.stdout.") || !strings.Contains(s.LogError, "no space left") {
		t.Fatalf("the cause is told as %q", s.LogError)
	}
}
