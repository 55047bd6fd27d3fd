// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// mountsBelow counts the mounts below a directory.
func mountsBelow(t *testing.T, dir string) int {
	t.Helper()
	body, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(body), " "+dir+"/")
}

// swept is a config with which the driver removes leftover mounts every second.
var swept = map[string]any{"gc": map[string]any{"dangling_containers": map[string]any{"period": "1s"}}}

// copies checks that docker cp works with the directories of a task's container, in
// both directions.
func (n *node) copies(tc *driver.TaskConfig) {
	n.t.Helper()
	name := tc.Name + "-" + tc.AllocID
	in := filepath.Join(n.t.TempDir(), "in")
	if err := os.WriteFile(in, []byte("copied"), 0o644); err != nil {
		n.t.Fatal(err)
	}
	n.cli("cp", in, name+":/local/in")
	if body, err := os.ReadFile(filepath.Join(tc.TaskDir, "local", "in")); err != nil || string(body) != "copied" {
		n.t.Errorf("what was copied into /local is in the task's folder: %q, %v", body, err)
	}
	out := filepath.Join(n.t.TempDir(), "out")
	n.cli("cp", name+":/local/in", out)
	if body, err := os.ReadFile(out); err != nil || string(body) != "copied" {
		n.t.Errorf("copied from /local: %q, %v", body, err)
	}
}

// sees checks that the running container sees its directories.
func (n *node) sees(tc *driver.TaskConfig) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "secrets", "s"), []byte("seen"), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if out := n.cli("exec", tc.Name+"-"+tc.AllocID, "cat", "/secrets/s"); out != "seen" {
		n.t.Errorf("the container reads %q from its secrets", out)
	}
}

func TestDockerCopiesFromContainersAndStartsThemAgain(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("sleep 600"))
	n.run(tc)
	name := tc.Name + "-" + tc.AllocID
	n.copies(tc)
	n.cli("restart", "-t", "1", name)
	n.sees(tc)
	n.copies(tc)
	n.cli("stop", "-t", "1", name)
	n.copies(tc)
	n.cli("start", name)
	n.sees(tc)
}

func TestAContainerThatDockerStartsAfterTheDaemonWasRestartedFindsItsFolders(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(script("sleep 600"))
	n.run(tc)
	name := tc.Name + "-" + tc.AllocID
	n.cli("update", "--restart", "always", name) // set manually: the driver never sets a restart policy
	n.docker.EndContainers = true
	defer func() {
		n.docker.EndContainers = false
		if err := n.docker.Stop(); err != nil {
			t.Error(err)
		}
		if err := n.docker.Run(); err != nil {
			t.Error(err)
		}
	}()
	for range 2 { // first with live-restore, so that the containers keep running
		if err := n.docker.Stop(); err != nil {
			t.Fatal(err)
		}
		if err := n.docker.Run(); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the daemon has started the container again", func() bool { return n.inspect(tc, "{{.State.Running}}") == "true" })
	n.sees(tc)
	n.copies(tc)
}

func TestNothingStaysMountedForAContainerThatIsGone(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script("cat /f /local/x"), map[string]any{"volumes": []any{"local/x:/f:ro", "../alloc/new/deep:/deep"}}))
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "x"), []byte("seen "), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := n.output(tc); out != "seen seen " {
		t.Errorf("output %q", out)
	}
	if st, err := os.Stat(filepath.Join(tc.AllocDir, "alloc", "new", "deep")); err != nil || !st.IsDir() {
		t.Errorf("the folder that a volume names was not made: %v", err)
	}
	if got := mountsBelow(t, n.dir); got != 6 {
		t.Errorf("%d mounts for a container that shows 5 folders, want these and theirs", got)
	}
	if err := n.d.DestroyTask(limit(t), tc.Ref(), false); err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(t, n.dir); got != 0 {
		t.Errorf("%d mounts are left by a task that was destroyed", got)
	}

	failed := n.task(map[string]any{"command": "/no/such/program"})
	if _, _, err := n.d.StartTask(limit(t), failed); err == nil {
		t.Error("a program that does not exist was started")
	}
	if got := mountsBelow(t, n.dir); got != 0 {
		t.Errorf("%d mounts are left by a start that failed", got)
	}

	byHand := n.task(script("sleep 600"))
	n.run(byHand)
	n.cli("rm", "-f", byHand.Name+"-"+byHand.AllocID)
	n.wait(byHand)
	if err := n.d.DestroyTask(limit(t), byHand.Ref(), false); err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(t, n.dir); got != 0 {
		t.Errorf("%d mounts are left by a container that was removed by hand", got)
	}
}

func TestTheDirectoryOfAnAllocGoesThoughItsContainerIsKept(t *testing.T) {
	n := newNode(t, map[string]any{"gc": map[string]any{"container": false, "dangling_containers": map[string]any{"period": "1s"}}})
	tc := n.task(script("exit 0"))
	n.run(tc)
	n.wait(tc)
	if err := n.d.DestroyTask(limit(t), tc.Ref(), false); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(tc.AllocDir); err != nil {
		t.Errorf("remove the alloc's directory: %v", err)
	}
	n.cli("rm", tc.Name+"-"+tc.AllocID)
	eventually(t, "the mounts go with the container", func() bool { return mountsBelow(t, n.dir) == 0 })
}

// shared creates a directory with shared mount propagation, as on most machines.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWhatTheAgentHasMountedForATaskStaysWhenItsContainerGoes(t *testing.T) {
	n := newNode(t, nil)
	tc := n.task(with(script("ls /whole/secrets"), map[string]any{"volumes": []any{".:/whole"}}))
	alloc := filepath.Join(shared(t), "a")
	if err := os.Rename(tc.AllocDir, filepath.Join(t.TempDir(), "was")); err != nil {
		t.Fatal(err)
	}
	tc.AllocDir, tc.TaskDir = alloc, filepath.Join(alloc, "web")
	tc.Logs.StdoutPath, tc.Logs.StderrPath = filepath.Join(alloc, "alloc", "logs", "web.stdout"), filepath.Join(alloc, "alloc", "logs", "web.stderr")
	secrets := filepath.Join(tc.TaskDir, "secrets")
	for _, dir := range []string{filepath.Join(alloc, "alloc", "logs"), filepath.Join(tc.TaskDir, "local"), secrets} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", secrets, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(secrets, "token"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if out := n.output(tc); out != "token\n" {
		t.Errorf("the container sees %q of the memory that holds its secrets", out)
	}
	if err := n.d.DestroyTask(limit(t), tc.Ref(), true); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(secrets, "token")); err != nil {
		t.Errorf("the task's secrets: %v", err)
	}
}

// left creates a directory with mounts like one that a killed start leaves behind.
func left(t *testing.T, place, source string) {
	t.Helper()
	if err := os.MkdirAll(place, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", place, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(place, "1"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(source, filepath.Join(place, "1"), "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
}

func TestMountsThatNoContainerNeedsAreTakenAwayByTheNextProcess(t *testing.T) {
	n := newNode(t, swept)
	tc := n.task(script("sleep 600"))
	handle := n.run(tc)
	stage := n.inspect(tc, `{{index .Config.Labels "io.drover.mounts"}}`)
	task := t.TempDir()
	if err := os.WriteFile(filepath.Join(task, "precious"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	killed := filepath.Join(n.dir, "mounts", filepath.Dir(stage), "start-1") // left behind by a killed start
	former := filepath.Join(n.dir, "mounts", "start-1")                      // the same, by an older version of the driver
	other := filepath.Join(n.dir, "mounts", "0123456789ab", "start-1")       // belongs to a daemon that this process cannot ask
	rebooted := filepath.Join(n.dir, "mounts", filepath.Dir(stage), "start-2")
	for _, place := range []string{killed, former, other} {
		left(t, place, task)
	}
	defer func() { _ = unix.Unmount(other, unix.MNT_DETACH) }() // created by the test
	if err := os.Mkdir(rebooted, 0o700); err != nil {
		t.Fatal(err)
	}
	n.close()
	n.start()
	for _, place := range []string{killed, former, rebooted} {
		eventually(t, place+" goes", func() bool {
			_, err := os.Stat(place)
			return os.IsNotExist(err)
		})
	}
	if _, err := os.Stat(filepath.Join(task, "precious")); err != nil {
		t.Errorf("a file of the task is gone: %v", err)
	}
	if _, err := os.Stat(filepath.Join(other, "1", "precious")); err != nil {
		t.Errorf("the mounts for a container of another daemon: %v", err)
	}
	n.sees(tc) // the container of a task that was not recovered yet
	n.copies(tc)
	if err := n.d.RecoverTask(limit(t), handle); err != nil {
		t.Fatal(err)
	}
}

func TestContainersKeepTheirFoldersWhenThePluginIsKilled(t *testing.T) {
	launch, state := launcher(t, swept)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, die := launch()
	n := &node{t: t, docker: dockerd(t), dir: state}
	tc, orphan, byHand := newTask(t, d, script("sleep 600")), newTask(t, d, script("sleep 600")), newTask(t, d, script("sleep 600"))
	handles := map[string]*driver.Handle{}
	for _, one := range []*driver.TaskConfig{tc, orphan, byHand} {
		h, _, err := d.StartTask(ctx, one)
		if err != nil {
			t.Fatal(err)
		}
		handles[one.ID] = h
	}
	die()
	n.copies(tc) // while no plugin runs
	n.cli("rm", "-f", byHand.Name+"-"+byHand.AllocID)
	d, die = launch()
	eventually(t, "the mounts of the container that was removed by hand are taken away", func() bool { return mountsBelow(t, state) == 2*4 })
	if err := d.RecoverTask(ctx, handles[tc.ID]); err != nil {
		t.Fatal(err)
	}
	n.copies(tc)
	die()
	n.cli("restart", "-t", "1", tc.Name+"-"+tc.AllocID)
	n.sees(tc)
	d, die = launch()
	if err := d.RecoverTask(ctx, handles[tc.ID]); err != nil {
		t.Fatal(err)
	}
	if err := d.DestroyTask(ctx, tc.Ref(), true); err != nil {
		t.Fatal(err)
	}
	if got := mountsBelow(t, state); got != 4 {
		t.Errorf("%d mounts, want those of the other container", got)
	}
	die()
	d, _ = launch()
	if err := d.DestroyTask(ctx, orphan.Ref(), true); err != nil { // it was not recovered
		t.Fatal(err)
	}
	if got := mountsBelow(t, state); got != 0 {
		t.Errorf("%d mounts are left", got)
	}
}

func TestATaskOfTheFormerVersionIsRecoveredAndDestroyed(t *testing.T) {
	n := newNode(t, nil)
	model := n.task(script("sleep 600"))
	handle := n.run(model)
	var facts map[string]any
	if err := json.Unmarshal(handle.State, &facts); err != nil {
		t.Fatal(err)
	}
	// Its containers have no label with the name of a mounts directory, because nothing
	// is mounted for them.
	args := []string{"run", "-d", "--name", "former-" + model.AllocID}
	id := model.AllocID + "/web/former"
	for label, value := range map[string]string{
		"owner": n.inspect(model, `{{index .Config.Labels "io.drover.owner"}}`), "task_id": id, "alloc_id": model.AllocID, "task_name": "web", "node_id": "node-1",
	} {
		args = append(args, "--label", "io.drover."+label+"="+value)
	}
	facts["container"] = n.cli(append(args, "busybox:drover", "sleep", "600")...)
	state, err := json.Marshal(facts)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.d.RecoverTask(limit(t), &driver.Handle{TaskID: id, Version: 1, State: state}); err != nil {
		t.Fatal(err)
	}
	if s, err := n.d.InspectTask(limit(t), id); err != nil || s.State != driver.TaskRunning {
		t.Errorf("the task: %+v, %v", s, err)
	}
	if err := n.d.DestroyTask(limit(t), driver.TaskRef{ID: id}, true); err != nil {
		t.Fatal(err)
	}
	if out := n.cli("ps", "-aq", "--filter", "name=former-"+model.AllocID); out != "" {
		t.Errorf("the container %s is left", out)
	}
}
