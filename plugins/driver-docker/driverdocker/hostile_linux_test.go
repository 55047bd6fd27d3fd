// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

// swapEnv makes a second process of this test swap two names in a loop, as a sidecar
// that shares the alloc's directory could.
const swapEnv = "DROVER_TEST_SWAP"

// swapForever swaps two names, separated by a colon, until it is killed.
func swapForever(names string) {
	a, b, _ := strings.Cut(names, ":")
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil {
			os.Exit(3)
		}
	}
}

// swapper creates dir and a link to target, and swaps them until the test ends.
func swapper(t *testing.T, dir, target string) {
	t.Helper()
	link := dir + ".link"
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), swapEnv+"="+dir+":"+link)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it runs until the end of the test
		_ = cmd.Wait()         // it was killed
	})
}

// foreign creates a directory of the machine that no task may see.
func foreign(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "of-the-machine"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

const swaps = 12 // starts per kind

func TestHostileAFolderThatASidecarSwapsForALinkShowsNothingOfTheMachine(t *testing.T) {
	for name, source := range map[string]map[string]any{
		"volumes": {"volumes": []any{"../alloc/d:/seen"}},
		"mount":   {"mount": []any{map[string]any{"type": "bind", "source": "../alloc/d", "target": "/seen"}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, nil)
			tc := n.task(with(script("ls /seen"), source))
			swapper(t, filepath.Join(tc.AllocDir, "alloc", "d"), foreign(t))
			refused, escapes := 0, 0
			for started := 0; started < swaps; {
				id := tc.ID
				if _, _, err := n.d.StartTask(limit(t), tc); errdefs.IsInvalidArgument(err) {
					refused++
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				started++
				n.wait(tc)
				if strings.Contains(n.printed(tc), "of-the-machine") {
					escapes++
				}
				if err := n.d.DestroyTask(limit(t), driver.TaskRef{ID: id}, true); err != nil {
					t.Fatal(err)
				}
				for _, f := range []string{tc.Logs.StdoutPath, tc.Logs.StderrPath} {
					_ = os.Remove(f + ".0") // the log of this start; it does not exist if nothing was printed
				}
			}
			t.Logf("%d starts, %d refused, %d escapes", swaps, refused, escapes)
			if escapes > 0 {
				t.Errorf("%d of %d containers saw a folder of the machine", escapes, swaps)
			}
		})
	}
}

func TestATaskThatSwapsItsOwnFoldersForLinksSeesNothingOfTheMachineWhenItIsRestarted(t *testing.T) {
	n := newNode(t, nil)
	secret := foreign(t)
	tc := n.task(with(script("ls /local; cd /whole && mv local was && ln -s "+secret+" local"), map[string]any{"volumes": []any{".:/whole"}}))
	if out := n.output(tc); out != "" {
		t.Fatalf("the first start printed %q", out)
	}
	if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
		t.Fatal(err)
	}
	_, _, err := n.d.StartTask(limit(t), tc)
	if err == nil {
		n.wait(tc)
		_ = n.d.DestroyTask(limit(t), tc.Ref(), true) // the daemon is the tests' own
	}
	if !errdefs.IsInvalidArgument(err) || strings.Contains(n.printed(tc), "of-the-machine") {
		t.Errorf("the second start: %v, output %q", err, n.printed(tc))
	}
}

func TestHostileAPluginThatIsKilledInAStartLeavesNoContainerThatRuns(t *testing.T) {
	const rounds = 10
	launch, state := launcher(t, map[string]any{"gc": map[string]any{"dangling_containers": map[string]any{"period": "1s"}}})
	d, die := launch()
	var ids []string
	for round := range rounds {
		tc := newTask(t, d, script("sleep 600"))
		ids = append(ids, tc.ID)
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _, _ = d.StartTask(limit(t), tc) // it may succeed or fail
		}()
		pause := time.NewTimer(time.Duration(round) * 60 * time.Millisecond) // spread over the duration of a start
		<-pause.C
		die()
		<-done
		d, die = launch()
		if err := d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
			t.Fatal(err)
		}
	}
	// A container that was created by an interrupted request is listed, and then
	// removed.
	left, err := d.(driver.Lister).ListTasks(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range left {
		if err := d.DestroyTask(limit(t), driver.TaskRef{ID: h.TaskID}, true); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the mounts of killed starts are taken away", func() bool { return mountsBelow(t, state) == 0 })
	docker := dockerd(t)
	for round, id := range ids {
		out, err := docker.CLI("ps", "-q", "--filter", "label=io.drover.task_id="+id)
		if err != nil {
			t.Fatal(err)
		}
		if out != "" {
			t.Errorf("round %d: the container %s runs though its task was destroyed", round, out)
		}
	}
	for _, id := range ids {
		if out, err := docker.CLI("ps", "-aq", "--filter", "label=io.drover.task_id="+id); err != nil || out != "" {
			t.Errorf("containers that are left: %q, %v", out, err)
		}
	}
}

func TestHostileACommandThatForksWithoutEndIsGoneWhenItsTimeIsOver(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("exec sleep 100000"))
	n.run(tc)
	number := 700000 + os.Getpid()
	forever := fmt.Sprintf("while :; do sleep %[1]d & setsid sleep %[1]d & (setsid sh -c 'sleep %[1]d; :' &); sleep 0.05; done", number)
	for _, tty := range []bool{false, true} {
		ctx, cancel := context.WithTimeout(limit(t), 2*time.Second)
		_, err := n.d.ExecTask(ctx, tc.ID, driver.ExecOptions{Command: []string{"/bin/sh", "-c", forever}, TTY: tty}, driver.ExecStream{})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("terminal %v: it ended with %v", tty, err)
		}
		eventually(t, "its processes are gone", func() bool { return !strings.Contains(n.cli("top", "web-"+tc.AllocID), fmt.Sprint(number)) })
	}
	r, err := n.d.ExecTask(limit(t), tc.ID, driver.ExecOptions{Command: []string{"/bin/true"}}, driver.ExecStream{})
	if err != nil || !r.Successful() {
		t.Errorf("another command in the container: %+v, %v", r, err)
	}
}
