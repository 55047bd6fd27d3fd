// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package supervisor_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	"github.com/drover-project/drover/sdk/errdefs"
)

// elsewhereEnv names the supervisor's and the alloc's directory for a process of this
// binary that is a client in a mount namespace of its own.
const elsewhereEnv = "DROVER_SUPERVISOR_TEST_ELSEWHERE"

// elsewhere mounts something that only its own mount namespace has, and starts a task
// that copies it.
func elsewhere(dirs string) error {
	dir, root, _ := strings.Cut(dirs, ":")
	mounted := filepath.Join(root, "mounted")
	if err := unix.Mount("none", mounted, "tmpfs", 0, ""); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(mounted, "file"), []byte("of the new namespace\n"), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := supervisor.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.UpToDate(ctx); err != nil {
		return err
	}
	s := (&rig{root: root}).sh("new", "cat mounted/file")
	if _, err := c.Start(ctx, s); err != nil {
		return err
	}
	_, err = c.Wait(ctx, "new")
	return err
}

func TestTheSupervisorFollowsTheAgentIntoANewMountNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mount namespaces need root")
	}
	r := newRig(t)
	r.must(os.Mkdir(filepath.Join(r.root, "mounted"), 0o700))
	old := r.start("old", `i=0; while [ ! -e go ]; do i=$((i+1)); echo $i; done; exit 17`)
	before := r.hello()

	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), elsewhereEnv+"="+r.dir+":"+r.root)
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := r.log("new.stdout.0"); got != "of the new namespace\n" {
		t.Errorf("the new task saw %q", got)
	}
	// This process is now the one whose supervisor is elsewhere.
	if now := r.hello(); now != before {
		t.Errorf("before %+v, back again %+v", before, now)
	}
	r.must(os.WriteFile(filepath.Join(r.root, "go"), nil, 0o600))
	e := r.wait("old")
	if now, err := r.Inspect(r.ctx, "old"); err != nil || now.PID != old.PID || e.Code != 17 {
		t.Errorf("the old task: exit %+v, %+v, %v", e, now, err)
	}
	r.consecutive("old")
}

// refusing answers like a supervisor in another mount namespace that cannot leave it.
func refusing(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for {
				var size uint32
				if binary.Read(conn, binary.BigEndian, &size) != nil {
					return
				}
				var asked struct {
					Seq uint64
					Op  string
				}
				frame := make([]byte, size)
				if _, err := io.ReadFull(conn, frame); err != nil || json.Unmarshal(frame, &asked) != nil {
					return
				}
				answer := map[string]any{"seq": asked.Seq, "hello": supervisor.Hello{Version: 1, Binary: supervisor.Identity("/proc/self/exe"), Mounts: "mnt:[1]"}}
				if asked.Op == "upgrade" {
					answer = map[string]any{"seq": asked.Seq, "class": "FailedPrecondition", "error": "not allowed to"}
				}
				body, _ := json.Marshal(answer) // it has no values that cannot be encoded
				if binary.Write(conn, binary.BigEndian, uint32(len(body))) != nil {
					return
				}
				if _, err := conn.Write(body); err != nil {
					return
				}
			}
		}()
	}
}

func TestASupervisorThatCannotMoveIsUsedAndReported(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { refusing(l) })
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { l.Close() })
	c, err := supervisor.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.UpToDate(t.Context()); !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), "not allowed to") {
		t.Errorf("the supervisor that stays: %v", err)
	}
	if hello, err := c.Hello(t.Context()); err != nil || hello.Mounts != "mnt:[1]" {
		t.Errorf("it is used: %+v, %v", hello, err)
	}
}
