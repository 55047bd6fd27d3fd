// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package repotest_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// maxTracked is the size in bytes that a file of the repository may have.
const maxTracked = 1 << 20

// programs are the first bytes of build outputs: ELF, Windows and macOS programs,
// and object archives.
var programs = []string{"\x7fELF", "MZ", "\xcf\xfa\xed\xfe", "!<arch>\n"}

// tracked returns the files of the repository. It skips the test where there is no git.
func tracked(t *testing.T) []string {
	t.Helper()
	list, err := exec.Command("git", "-C", repoRoot, "ls-files", "-z").Output()
	if err != nil {
		t.Skipf("this is no checkout of git: %v", err)
	}
	return strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
}

func TestNothingThatIsBuiltAndNothingLargeIsTracked(t *testing.T) {
	for _, name := range tracked(t) {
		path := filepath.Join(repoRoot, name)
		info, err := os.Lstat(path)
		if os.IsNotExist(err) {
			continue // it was removed, but that is not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() {
			continue
		}
		if info.Size() > maxTracked {
			t.Errorf("%s has %d bytes; the repository keeps no file over %d", name, info.Size(), maxTracked)
		}
		if head := firstBytes(t, path); isProgram(head) {
			t.Errorf("%s is a program; build it instead of keeping it", name)
		}
	}
}

func isProgram(head []byte) bool {
	for _, magic := range programs {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return false
}

func firstBytes(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head, err := io.ReadAll(io.LimitReader(f, 8))
	if err != nil {
		t.Fatal(err)
	}
	return head
}
