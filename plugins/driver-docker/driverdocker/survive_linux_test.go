// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
)

// keepAll makes the daemon keep all output: the driver cannot copy what the daemon
// discards.
var keepAll = map[string]any{"logging": map[string]any{"config": map[string]any{"max-size": "100m", "max-file": "1"}}}

// numbers checks that out consists of the lines 1 to n.
func numbers(t *testing.T, out string, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		if line != fmt.Sprint(i+1) {
			t.Fatalf("line %d of %d is %q: something was lost or came twice", i+1, len(lines), line)
		}
	}
	if len(lines) != n {
		t.Fatalf("%d lines, want %d", len(lines), n)
	}
}

// launcher returns a function that starts a process of the plugin with the state of
// the previous ones, and a function that kills it.
func launcher(t *testing.T, config map[string]any) (launch func() (driver.Driver, func()), state string) {
	t.Helper()
	docker := dockerd(t)
	binary := filepath.Join(t.TempDir(), "driver-docker")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/drover-project/drover/plugins/driver-docker").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	state = t.TempDir()
	return func() (driver.Driver, func()) {
		t.Helper()
		cmd := exec.Command(binary)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), plugin.StateDirEnv + "=" + state}
		conn, die := plugintest.Launch(t, cmd)
		drivers, err := driver.Connect(limit(t), conn)
		if err != nil || len(drivers) != 1 {
			t.Fatalf("connect: %v", err)
		}
		info := drivers[0].Info()
		full, err := info.ConfigSchema.Apply(with(config, map[string]any{"endpoint": docker.Endpoint()}))
		if err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		if err := drivers[0].SetConfig(limit(t), body); err != nil {
			t.Fatal(err)
		}
		return drivers[0], die
	}, state
}

func TestNoLineIsLostOrDoubledWhenThePluginIsKilledAgainAndAgain(t *testing.T) {
	launch, _ := launcher(t, keepAll)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	d, die := launch()
	const lines = 150000
	tc := newTask(t, d, script(fmt.Sprintf("i=0; while [ $i -lt %d ]; do i=$((i+1)); echo $i; [ $((i%%500)) = 0 ] && usleep 10000; done; exit 7", lines)))
	tc.Logs.MaxFiles, tc.Logs.MaxFileSizeMB = 100, 1 // across rotations too
	handle, _, err := d.StartTask(ctx, tc)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.DestroyTask(ctx, tc.Ref(), true); err != nil {
			t.Error(err)
		}
	}()
	size := func() (n int64) {
		files, _ := filepath.Glob(tc.Logs.StdoutPath + ".*") // none yet
		for _, f := range files {
			if st, err := os.Stat(f); err == nil {
				n += st.Size()
			}
		}
		return n
	}
	whole := int64(0)
	for i := 1; i <= lines; i++ {
		whole += int64(len(fmt.Sprintln(i)))
	}
	for range 6 { // while it copies, unless this machine is very fast
		before := size()
		eventually(t, "output comes", func() bool { return size() > before || size() == whole })
		die()
		d, die = launch()
		if err := d.RecoverTask(ctx, handle); err != nil {
			t.Fatal(err)
		}
	}
	r, err := d.WaitTask(ctx, tc.ID)
	if err != nil || r.ExitCode != 7 {
		t.Errorf("result %+v, %v", r, err)
	}
	n := &node{t: t}
	eventually(t, "the last line comes", func() bool { return strings.HasSuffix(n.printed(tc), fmt.Sprintf("\n%d\n", lines)) })
	numbers(t, n.printed(tc), lines)
}

func TestATerminalsOutputIsKeptAndResumed(t *testing.T) {
	n := newNode(t, keepAll)
	tc := n.task(with(script("stty -onlcr; i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo $i; done; echo done"), map[string]any{"tty": true, "init": false}))
	h := n.run(tc)
	for range 3 {
		n.close()
		n.start()
		if err := n.d.RecoverTask(limit(t), h); err != nil {
			t.Fatal(err)
		}
	}
	n.wait(tc)
	eventually(t, "the last line comes", func() bool { return strings.HasSuffix(n.printed(tc), "done\n") })
	numbers(t, strings.TrimSuffix(n.printed(tc), "done\n"), 3000)
}

func TestARestartOfTheDaemonCostsNoTaskAndNoLine(t *testing.T) {
	n := newNode(t, keepAll)
	prints, err := n.d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := func(want driver.Health) driver.Fingerprint {
		t.Helper()
		for {
			select {
			case f := <-prints:
				if f.Health == want {
					return f
				}
			case <-time.After(time.Minute):
				t.Fatalf("the driver never became %s", want)
			}
		}
	}
	if f := next(driver.HealthHealthy); f.Attributes["driver.docker"] != "1" || f.Attributes["driver.docker.version"] == "" || f.Attributes["driver.docker.os_type"] != "linux" ||
		!strings.Contains(f.Attributes["driver.docker.runtimes"], "runc") || f.Attributes["driver.docker.bridge_ip"] == "" {
		t.Errorf("fingerprint %+v", f)
	}
	tc := n.task(script("i=0; while [ ! -e /local/stop ]; do i=$((i+1)); echo $i; usleep 20000; done; echo $i > /local/lines; exit 5"))
	n.run(tc)
	pid := n.inspect(tc, "{{.State.Pid}}")
	for _, end := range []func() error{n.docker.Stop, n.docker.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if f := next(driver.HealthUnhealthy); !strings.Contains(f.HealthDescription, "does not answer") {
			t.Errorf("fingerprint %+v", f)
		}
		other := n.task(script("exit 0"))
		if _, _, err := n.d.StartTask(limit(t), other); !errdefs.IsUnavailable(err) {
			t.Errorf("a start without a daemon: class %s, %v", errdefs.ClassOf(err), err)
		}
		if err := n.d.StopTask(limit(t), tc.ID, time.Second, "SIGTERM"); !errdefs.IsUnavailable(err) {
			t.Errorf("a stop without a daemon: class %s, %v", errdefs.ClassOf(err), err)
		}
		if s, err := n.d.InspectTask(limit(t), tc.ID); err != nil || s.State == driver.TaskExited {
			t.Errorf("the task counts as %+v, %v", s, err)
		}
		if err := n.docker.Run(); err != nil {
			t.Fatal(err)
		}
		next(driver.HealthHealthy)
		if got := n.inspect(tc, "{{.State.Pid}}"); got != pid {
			t.Errorf("the task's process is %s, was %s", got, pid)
		}
	}
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "stop"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := n.wait(tc); r.ExitCode != 5 {
		t.Errorf("result %+v", r)
	}
	body, err := os.ReadFile(filepath.Join(tc.TaskDir, "local", "lines"))
	if err != nil {
		t.Fatal(err)
	}
	lines, err := strconv.Atoi(strings.TrimSpace(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the last line comes", func() bool { return strings.HasSuffix(n.printed(tc), fmt.Sprintf("\n%d\n", lines)) })
	// A daemon that is killed loses what it has read from the container and not yet logged.
	kept := n.cli("logs", tc.Name+"-"+tc.AllocID) + "\n"
	if lost := lines - strings.Count(kept, "\n"); n.printed(tc) == kept && 0 < lost && lost < 5 {
		t.Logf("the daemon lost %d of %d lines", lost, lines)
		return
	}
	numbers(t, n.printed(tc), lines)
}

func TestADaemonThatHangsIsReportedAndForgivenWhenItGoesOn(t *testing.T) {
	n := newNode(t, nil)
	prints, err := n.d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthHealthy {
		t.Fatalf("fingerprint %+v", f)
	}
	tc := n.task(script("sleep 600"))
	n.run(tc)
	if err := n.docker.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = n.docker.Signal(syscall.SIGCONT) }() // a second one does no harm
	n.configure(n.config)                                   // makes the driver check at once
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := n.d.SignalTask(short, tc.ID, "SIGWINCH"); !errdefs.IsDeadlineExceeded(err) {
		t.Errorf("a call to a daemon that hangs: class %s, %v", errdefs.ClassOf(err), err)
	}
	if f := <-prints; f.Health != driver.HealthUnhealthy {
		t.Errorf("fingerprint %+v", f)
	}
	if err := n.docker.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthHealthy {
		t.Errorf("fingerprint %+v", f)
	}
	if s, err := n.d.InspectTask(limit(t), tc.ID); err != nil || s.State != driver.TaskRunning {
		t.Errorf("the task: %+v, %v", s, err)
	}
}

func TestADaemonThatIsNotThereIsUndetectedAndLookedForAgain(t *testing.T) {
	n := newNode(t, nil)
	n.configure(with(n.config, map[string]any{"endpoint": "unix:///nowhere/docker.sock"}))
	prints, err := n.d.Fingerprint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := <-prints; f.Health != driver.HealthUndetected || len(f.Attributes) != 0 || !strings.Contains(f.HealthDescription, "/nowhere/docker.sock") {
		t.Errorf("fingerprint %+v", f)
	}
	n.configure(with(n.config, map[string]any{"allow_privileged": true, "volumes": map[string]any{"enabled": true}}))
	f := <-prints
	if f.Health != driver.HealthHealthy || f.Attributes["driver.docker.privileged.enabled"] != "true" || f.Attributes["driver.docker.volumes.enabled"] != "true" {
		t.Errorf("fingerprint %+v", f)
	}
}

func TestOnlyContainersThatAreOursAndNobodysAreRemoved(t *testing.T) {
	config := map[string]any{"gc": map[string]any{"dangling_containers": map[string]any{"period": "1s", "creation_grace": "4s"}}}
	n := newNode(t, config)
	lost := n.task(script("sleep 600"))
	n.run(lost)
	kept := n.task(script("sleep 600"))
	handle := n.run(kept)
	owner := n.inspect(lost, `{{index .Config.Labels "io.drover.owner"}}`)
	foreign := map[string]string{
		"plain":     n.cli("run", "-d", "busybox:drover", "sleep", "600"),
		"reference": n.cli("run", "-d", "--label", "com.hashicorp.nomad.alloc_id="+lost.AllocID, "busybox:drover", "sleep", "600"),
		"other node": n.cli("run", "-d", "--label", "io.drover.owner=0123456789abcdef0123456789abcdef", "--label", "io.drover.task_id=x",
			"--label", "io.drover.alloc_id=x", "busybox:drover", "sleep", "600"),
		"our labels of another node": n.cli("run", "-d", "--label", "io.drover.owner="+owner, "--label", "io.drover.task_id=x",
			"--label", "io.drover.alloc_id=x", "--label", "io.drover.node_id=node-2", "busybox:drover", "sleep", "600"),
		"half": n.cli("run", "-d", "--label", "io.drover.owner="+owner, "busybox:drover", "sleep", "600"),
	}
	defer func() {
		for _, id := range foreign {
			n.cli("rm", "-f", id)
		}
	}()
	lostID, keptID := n.inspect(lost, "{{.Id}}"), n.inspect(kept, "{{.Id}}")
	// A new process, which nobody asks to recover this task.
	n.close()
	n.start()
	if err := n.d.RecoverTask(limit(t), handle); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the orphan is removed", func() bool {
		_, err := n.docker.CLI("inspect", lostID)
		return err != nil
	})
	foreign["kept"] = keptID
	for name, id := range foreign {
		if n.cli("inspect", "-f", "{{.State.Running}}", id) != "true" {
			t.Errorf("the container %q was ended", name)
		}
	}
	delete(foreign, "kept")
}

func TestAStartThatIsGivenUpLeavesNothing(t *testing.T) {
	n := newNode(t, nil)
	r := dockertest.NewRegistry(t)
	name := r.Push(t, "slow", "1", image(t, "given up"))
	r.Hold()
	events, err := n.d.TaskEvents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tc := n.task(map[string]any{"image": name})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, _, err := n.d.StartTask(ctx, tc)
		done <- err
	}()
	<-events // downloading
	cancel()
	if err := <-done; !errdefs.IsCanceled(err) {
		t.Errorf("class %s, %v", errdefs.ClassOf(err), err)
	}
	if got := n.cli("ps", "-aq", "--filter", "name="+tc.AllocID); got != "" {
		t.Errorf("a container is left: %s", got)
	}
	if _, err := n.d.InspectTask(limit(t), tc.ID); !errdefs.IsNotFound(err) {
		t.Errorf("the task is known: %v", err)
	}
}
