// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/agentlog"
)

func TestLinesThatAFullDiskTakesNotAreCounted(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	room, err := os.Create(filepath.Join(t.TempDir(), "room"))
	if err != nil {
		t.Fatal(err)
	}
	var complaints bytes.Buffer
	f, err := agentlog.OpenFile(filepath.Join(t.TempDir(), "drover.log"), agentlog.Rotation{}, &complaints)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Into(full)
	for range 3 {
		if _, err := f.Write([]byte("line\n")); err == nil {
			t.Fatal("a full disk takes a line")
		}
	}
	if got := complaints.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "no space left on device") {
		t.Errorf("it says of a full disk:\n%s", got)
	}
	f.Into(room)
	for range 2 {
		if _, err := f.Write([]byte("line\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got := complaints.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "3 lines are missing") {
		t.Errorf("it says once there is room:\n%s", got)
	}
}
