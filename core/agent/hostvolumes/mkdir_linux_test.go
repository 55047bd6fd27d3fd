// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostvolumes_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

func TestMkdirLeavesNoDirectoryThatItCannotGiveToItsOwner(t *testing.T) {
	m := newMachine(t)
	k := m.open()
	runtime.LockOSThread() // the thread ends with the test, and what it may not with it
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var may [2]unix.CapUserData
	if err := unix.Capget(&header, &may[0]); err != nil {
		t.Fatal(err)
	}
	may[0].Effective &^= 1 << unix.CAP_CHOWN
	if err := unix.Capset(&header, &may[0]); err != nil {
		t.Fatal(err)
	}
	v := volume(one, "data", "mkdir")
	v.Parameters = map[string]string{"uid": "4242"}
	if _, err := k.Create(t.Context(), v); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(m.volumes(), one)); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
}
