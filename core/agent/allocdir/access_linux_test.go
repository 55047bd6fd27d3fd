// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/agent/mounts"
)

// Users of the machine, whom no password file need know.
const (
	theTask  = 54321
	stranger = 54322
)

// reachable makes an alloc's directory as an agent that is root has it: every user of
// the machine can reach it.
func reachable(t *testing.T) allocdir.Dir {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root has processes of other users")
	}
	root := t.TempDir()
	if err := os.Chmod(filepath.Dir(root), 0o711); err != nil {
		t.Fatal(err)
	}
	d := allocdir.New(root, "a1")
	if err := d.Build(); err != nil {
		t.Fatal(err)
	}
	if err := d.BuildTask("web"); err != nil {
		t.Fatal(err)
	}
	return d
}

// as runs a command as a user of the machine and reports whether it succeeds.
func as(t *testing.T, uid uint32, script string) bool {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	err := cmd.Run()
	if _, ended := err.(*exec.ExitError); err != nil && !ended {
		t.Fatal(err)
	}
	return err == nil
}

func TestNobodyButTheTasksUserReadsItsSecrets(t *testing.T) {
	for name, inMemory := range map[string]bool{"in memory": true, "on disk": false} {
		t.Run(name, func(t *testing.T) {
			d := reachable(t)
			if inMemory {
				if _, err := d.MountSecrets("web", 1); err != nil {
					t.Skip(err)
				}
				t.Cleanup(func() {
					if err := mounts.Detach(d.Path); err != nil {
						t.Error(err)
					}
				})
			}
			token := filepath.Join(d.Secrets("web"), "token")
			write(t, token, "s3cret")
			attempts := []string{
				"cat " + token, "ls " + d.Secrets("web"), "touch " + d.Secrets("web") + "/new", "mv " + d.Secrets("web") + " " + d.Shared() + "/stolen",
				"mv " + d.Local("web") + " " + d.Shared() + "/stolen", "ls " + d.Path,
			}
			refused := func(when string, uid uint32) {
				t.Helper()
				for _, script := range attempts {
					if as(t, uid, script) {
						t.Errorf("%s user %d may: %s", when, uid, script)
					}
				}
			}
			refused("before the task starts", stranger)
			refused("before the task starts", theTask)
			for range 2 {
				if err := d.Admit("web", allocdir.AccessOf(theTask, theTask)); err != nil {
					t.Fatal(err)
				}
			}
			refused("beside a task of its own user", stranger)
			if !as(t, theTask, "cat "+token+" && touch "+d.Secrets("web")+"/own "+d.Local("web")+"/own "+d.Shared()+"/data/own && cd "+d.Task("web")) {
				t.Error("the task cannot use its own folders")
			}
			if err := d.Admit("web", allocdir.AccessWithin()); err != nil {
				t.Fatal(err)
			}
			refused("beside a container", stranger)
			refused("beside a container", theTask)
			if err := d.Admit("web", allocdir.AccessOf(0, 0)); err != nil {
				t.Fatal(err)
			}
			refused("beside a task that is root", stranger)
			if !as(t, stranger, "ls "+d.Local("web")) {
				t.Error("what a task that is root starts as somebody else does not reach its folder")
			}
		})
	}
}

// shown starts a program in a mount namespace in which the folder is at /mnt, as a
// container sees it whose root cannot be left.
func shown(t *testing.T, folder string, uid int, script string) error {
	t.Helper()
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "/bin/sh", "-c",
		"mount --bind "+folder+" /mnt && exec setpriv --reuid "+strconv.Itoa(uid)+" --regid "+strconv.Itoa(uid)+" --clear-groups /bin/sh -c '"+script+"'")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Logf("%s", out)
	}
	return err
}

func TestWhomAContainerShowsTheSecretsToReadsThemWhoeverItIs(t *testing.T) {
	d := reachable(t)
	write(t, filepath.Join(d.Secrets("web"), "token"), "s3cret")
	if err := d.Admit("web", allocdir.AccessWithin()); err != nil {
		t.Fatal(err)
	}
	if err := shown(t, d.Secrets("web"), theTask, "cat /mnt/token && touch /mnt/own"); err != nil {
		t.Error(err)
	}
}

func TestOpeningATasksFoldersFollowsNoLink(t *testing.T) {
	d := reachable(t)
	if err := d.BuildTask("db"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Secrets("web")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../db/secrets", d.Secrets("web")); err != nil {
		t.Fatal(err)
	}
	if err := d.Admit("web", allocdir.AccessWithin()); err == nil {
		t.Error("a link in the place of the secrets was followed")
	}
	var st unix.Stat_t
	if err := unix.Stat(d.Secrets("db"), &st); err != nil || st.Mode&0o777 != 0o700 || st.Uid != 0 {
		t.Errorf("the secrets of the other task have mode %o and owner %d, %v", st.Mode&0o777, st.Uid, err)
	}
}
