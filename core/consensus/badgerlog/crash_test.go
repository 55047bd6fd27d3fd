// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/core/consensus/badgerlog"
)

// childDir makes the test binary play the process that is killed.
const childDir = "BADGERLOG_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		fmt.Println("error:", writeUntilKilled(dir, os.Stdout))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeUntilKilled appends, truncates as raft does after a snapshot, and says
// after each step what it was promised: "stored N" or "floor N".
func writeUntilKilled(dir string, out io.Writer) error {
	s, err := badgerlog.Open(badgerlog.Config{Dir: dir, Profile: badgerlog.ProfileDev})
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil {
		return err
	}
	for {
		if err := s.StoreLogs(entries(last+1, last+64, 256)); err != nil {
			return err
		}
		last += 64
		fmt.Fprintln(out, "stored", last)
		if last%8192 == 0 {
			first, err := s.FirstIndex()
			if err != nil {
				return err
			}
			if err := s.DeleteRange(first, last-5000); err != nil {
				return err
			}
			fmt.Fprintln(out, "floor", last-4999)
		}
	}
}

func TestWhatWasAcknowledgedSurvivesKillNine(t *testing.T) {
	dir := t.TempDir()
	var stored, floor uint64
	// The steps after which each child is killed: some fall beside a
	// truncation, some into the middle of the next.
	for round, lines := range []int{40, 130, 131, 260, 500} {
		s, f := killAfter(t, dir, lines)
		stored, floor = max(stored, s), max(floor, f)

		store := open(t, dir)
		first, last := bounds(t, store)
		if last < stored {
			t.Fatalf("round %d: entry %d was acknowledged, the log ends at %d", round, stored, last)
		}
		if first < max(floor, 1) {
			t.Fatalf("round %d: entries below %d were deleted, the log begins at %d", round, floor, first)
		}
		for index := first; index <= last; index++ {
			var log raft.Log
			if err := store.GetLog(index, &log); err != nil {
				t.Fatalf("round %d: entry %d: %v", round, index, err)
			}
			if want := entry(index, 256); log.Term != want.Term || string(log.Data) != string(want.Data) {
				t.Fatalf("round %d: entry %d came back changed", round, index)
			}
		}
		closeStore(t, store)
	}
}

func killAfter(t *testing.T, dir string, lines int) (stored, floor uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan := bufio.NewScanner(out)
	for n := 0; n < lines && scan.Scan(); n++ {
		what, number, _ := strings.Cut(scan.Text(), " ")
		index, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			t.Fatalf("the child said %q", scan.Text())
		}
		switch what {
		case "stored":
			stored = index
		case "floor":
			floor = index
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it says "killed", which is what was asked for
	return stored, floor
}
