// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/osthread"
)

func TestASocketThatTheAgentsUserMayNotOpenIsToldFromADaemonThatIsDown(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir, err := os.MkdirTemp("", "drover-docker-") // which everybody reaches, unlike t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(dir, "docker.sock")
	l, err := net.Listen("unix", there)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(there, 0o600); err != nil {
		t.Fatal(err)
	}
	for endpoint, want := range map[string]bool{
		"unix://" + there: true, "unix://" + filepath.Join(dir, "none"): false, "tcp://127.0.0.1:1": false,
	} {
		got := false
		err := osthread.Do(func() error {
			const nobody = 65534
			if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 { // of this thread only
				return errno
			}
			got = forbidden(t.Context(), endpoint)
			return nil
		})
		if err != nil || got != want {
			t.Errorf("%s: forbidden is %v, want %v; %v", endpoint, got, want, err)
		}
	}
}
