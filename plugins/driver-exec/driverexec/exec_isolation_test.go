// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestATaskSeesNoFilesOfTheAgentOrOfOtherTasks(t *testing.T) {
	// Even if the operator makes a directory visible that contains the agent's
	// directories.
	c := newCell(t, map[string]any{"chroot_env": map[string]any{
		"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr", "/etc": "/etc", os.TempDir(): "/machine",
	}})
	other := c.sleeper("other")
	if err := os.WriteFile(filepath.Join(other.TaskDir, "secrets", "token"), []byte("precious"), 0o644); err != nil {
		t.Fatal(err)
	}
	c.start(other)
	inside := "/machine/" + filepath.Base(c.dir)
	task := c.task("one", sh(fmt.Sprintf(`
		cat %[1]s/allocs/other/web/secrets/token && echo SEEN
		[ -e %[2]s ] && echo SEEN
		ls -A %[1]s/allocs %[1]s/state
		ls -A /private
		for p in /proc/[0-9]*; do cat $p/environ 2>/dev/null; done | grep -a OTHER && echo SEEN
		exit 0`, inside, c.dir)))
	if err := os.MkdirAll(filepath.Join(task.TaskDir, "private"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(task.TaskDir, "private", "key"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	out, r := c.run(task)
	if !r.Successful() || strings.Contains(out, "SEEN") || strings.Contains(out, "precious") || strings.Contains(out, "socket") || strings.Contains(out, "key") {
		t.Fatalf("%+v:\n%s", r, out)
	}
	if !strings.Contains(out, inside+"/allocs:\n\n"+inside+"/state:\n") {
		t.Fatalf("the agent's directories are not covered:\n%s", out)
	}
}

func TestFilesOfATaskAreSeenBesideTheMachinesOfTheSamePlace(t *testing.T) {
	c := newCell(t, nil)
	volume := filepath.Join(c.dir, "volume")
	if err := os.MkdirAll(volume, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "data"), []byte("from the volume\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// The reference's documentation has this example for host volumes.
	task := c.task("own", map[string]any{"command": "/bin/sh", "args": []any{"/usr/local/bin/myapplication.sh"}})
	task.Mounts = []driver.Mount{{HostPath: volume, TaskPath: "/tmp/foo", ReadOnly: true}}
	own := filepath.Join(task.TaskDir, "usr/local/bin")
	if err := os.MkdirAll(own, 0o755); err != nil {
		t.Fatal(err)
	}
	const script = "cat /tmp/foo/data; [ -x /usr/bin/env ] && [ -d /usr/local/bin ] && echo both; (echo more > /usr/local/bin/more) 2>/dev/null || echo read-only\n"
	if err := os.WriteFile(filepath.Join(own, "myapplication.sh"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, r := c.run(task); !r.Successful() || out != "from the volume\nboth\nread-only\n" {
		t.Fatalf("%+v: %q", r, out)
	}
	// A link in the task's directory has no effect: the task sees the machine's files.
	task = c.task("link", sh("ls /usr/secret; ls /usr/bin/env"))
	if err := os.WriteFile(filepath.Join(c.dir, "secret"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(c.dir, filepath.Join(task.TaskDir, "usr")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.StartTask(c.ctx, task); err == nil {
		defer func() { _ = c.DestroyTask(c.ctx, task.Ref(), true) }()
		if _, err := c.WaitTask(c.ctx, task.ID); err != nil {
			t.Fatal(err)
		}
		if out := c.output(task); strings.Contains(out, "secret") && !strings.Contains(out, "No such file") {
			t.Errorf("the link was followed: %q", out)
		}
	}
}

func TestATaskSeesAndSignalsOnlyItsOwnProcesses(t *testing.T) {
	c := newCell(t, nil)
	// These are the shells, ls, grep and process 1.
	out := c.script("a", `[ $(ls /proc | grep -c '^[0-9]') -le 5 ] && echo few; kill -0 `+strconv.Itoa(os.Getpid())+` || echo none; kill -9 1; cat /proc/1/comm; echo $$`)
	if !strings.HasPrefix(out, "few\n") || !strings.Contains(out, "none\n") || !strings.Contains(out, "drover-init\n2\n") {
		t.Fatalf("output %q", out)
	}
}

func TestACommandMayBeProcessOne(t *testing.T) {
	c := newCell(t, nil)
	first := func(script string) map[string]any {
		config := sh(script)
		config["init"] = false
		return config
	}
	look := "echo $$; cat /proc/1/comm; id -un; [ $(ls /proc | grep -c '^[0-9]') -le 5 ] && echo few; ls /proc/self/fd; cat /proc/kcore /sys/kernel/debug/x >/dev/null 2>&1 || echo covered; touch /x 2>/dev/null || echo read-only"
	out, r := c.run(c.task("look", first(look)))
	if want := "1\nsh\nnobody\nfew\n0\n1\n2\n3\ncovered\nread-only\n"; !r.Successful() || out != want {
		t.Fatalf("%+v: %q, want %q", r, out, want)
	}
	if got, want := out, c.script("init", look); strings.Join(strings.Split(got, "\n")[4:], " ") != strings.Join(strings.Split(want, "\n")[4:], " ") {
		t.Errorf("it sees %q, a task with an init %q", got, want)
	}
	// When it ends, all processes end. A signal without a handler does not end it.
	task := c.task("long", first("setsid sleep 1000 & echo up; exec sleep 1000"))
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up") })
	c.eventually("a command in it sees it as process 1", func() bool { // once the shell has executed it
		out, _, err := c.exec(task, "/bin/sh", "-c", "tr '\\0' ' ' < /proc/1/cmdline")
		return err == nil && out == "sleep 1000 "
	})
	begin := time.Now()
	if err := c.StopTask(c.ctx, task.ID, time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("it ended after %s", took)
	}
	if r, err := c.WaitTask(c.ctx, task.ID); err != nil || r.Signal != int(syscall.SIGKILL) {
		t.Errorf("it ended with %+v, %v", r, err)
	}
	// Configs that cannot be applied are rejected, and missing paths are named.
	bad := first("true")
	bad["pid_mode"] = "host"
	c.configure(hostModes)
	if _, _, err := c.StartTask(c.ctx, c.task("bad", bad)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "config.init") {
		t.Errorf("in the machine's namespace: %v", err)
	}
	none := first("true")
	none["command"] = "/bin/none"
	if _, _, err := c.StartTask(c.ctx, c.task("none", none)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "/bin/none") {
		t.Errorf("a command that is not there: %v", err)
	}
}

// hostModes allows modes in which tasks see the machine's processes and memory.
var hostModes = map[string]any{"allowed_modes": map[string]any{"pid": []any{"host"}, "ipc": []any{"host"}}}

func TestHostModesThatTheOperatorDoesNotAllowAreRefused(t *testing.T) {
	c := newCell(t, nil)
	for _, mode := range []string{"pid_mode", "ipc_mode"} {
		config := sh("true")
		config[mode] = "host"
		if _, _, err := c.StartTask(c.ctx, c.task(mode, config)); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "allowed_modes") {
			t.Errorf("%s = host: class %s, %v", mode, errdefs.ClassOf(err), err)
		}
	}
	c.configure(map[string]any{"allowed_modes": map[string]any{"pid": []any{"host"}}})
	config := sh("true")
	config["pid_mode"] = "host"
	if out, r := c.run(c.task("allowed", config)); !r.Successful() {
		t.Errorf("a mode that is allowed: %+v, %q", r, out)
	}
	config["ipc_mode"] = "host"
	if _, _, err := c.StartTask(c.ctx, c.task("other", config)); !errdefs.IsPermissionDenied(err) {
		t.Errorf("another mode than the one that is allowed: %v", err)
	}
	if err := c.SetConfig(c.ctx, []byte(`{"allowed_modes": {"pid": ["shared"]}}`)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "allowed_modes.pid") {
		t.Errorf("a mode that there is not: %v", err)
	}
}

func TestHostileATaskThatForksWithoutEndEndsAtItsLimitOfProcesses(t *testing.T) {
	c := newCell(t, map[string]any{"pids_limit": 30})
	task := c.task("bomb", sh("i=0; while [ $i -lt 200 ]; do sleep 600 & i=$((i+1)); done; wait"))
	c.start(task)
	c.eventually("forks fail", func() bool { return strings.Contains(strings.ToLower(c.output(task)), "fork") })
	if n := strings.Count(commandLines(t), "sleep\x00600\x00"); n > 30 {
		t.Errorf("%d processes of the task", n)
	}
	if err := c.SetConfig(c.ctx, []byte(`{"pids_limit": -1}`)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "pids_limit") {
		t.Errorf("a limit below zero: %v", err)
	}
}

// commandLines returns the command lines of all processes.
func commandLines(t *testing.T) string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range names {
		body, _ := os.ReadFile(name) // it may have ended
		out.Write(append(body, '\n'))
	}
	return out.String()
}

func TestHostModesShareTheMachinesNamespaces(t *testing.T) {
	c := newCell(t, hostModes)
	here := func(kind string) string {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	const look = "for n in pid ipc mnt; do readlink /proc/self/ns/$n; done"
	out := c.script("private", look)
	if strings.Contains(out, here("pid")) || strings.Contains(out, here("ipc")) || strings.Contains(out, here("mnt")) {
		t.Fatalf("private: %q", out)
	}
	config := sh(look + "; sleep 1000 & ls -d /proc/" + strconv.Itoa(os.Getpid()))
	config["pid_mode"], config["ipc_mode"] = "host", "host"
	out, r := c.run(c.task("host", config))
	if !r.Successful() || !strings.Contains(out, here("pid")) || !strings.Contains(out, here("ipc")) || strings.Contains(out, here("mnt")) {
		t.Fatalf("host: %+v, %q", r, out)
	}
	config = sh("setsid sleep 1000 & echo up; exec sleep 1000")
	config["pid_mode"] = "host"
	task := c.task("long", config)
	c.start(task)
	c.eventually("it runs", func() bool { return strings.Contains(c.output(task), "up") })
	if out, _, err := c.exec(task, "readlink", "/proc/self/ns/pid"); err != nil || strings.TrimSpace(out) != here("pid") {
		t.Fatalf("a command in a task of the machine's pid namespace: %q, %v", out, err)
	}
	if err := c.StopTask(c.ctx, task.ID, 10*time.Second, "SIGTERM"); err != nil {
		t.Fatal(err)
	}
	bad := sh("true")
	bad["pid_mode"] = "shared"
	if _, _, err := c.StartTask(c.ctx, c.task("bad", bad)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "pid_mode") {
		t.Fatalf("an unknown mode: %v", err)
	}
}

// status reads a field of /proc/self/status as a task printed it.
func status(out, field string) string {
	for line := range strings.Lines(out) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func TestCapabilitiesAreTheDefaultSetMoreOrLessAsAskedFor(t *testing.T) {
	c := newCell(t, map[string]any{"allow_caps": []any{"all"}})
	const byDefault = "00000000a80405fb"
	for _, x := range []struct {
		name, user                 string
		add, drop                  []any
		effective, bounding, ambit string
	}{
		{"nobody", "", nil, nil, "0000000000000000", byDefault, "0000000000000000"},
		{"root", "root", nil, nil, byDefault, byDefault, "0000000000000000"},
		{"bare", "root", nil, []any{"all"}, "0000000000000000", "0000000000000000", "0000000000000000"},
		{"one", "root", []any{"cap_net_raw"}, []any{"ALL"}, "0000000000002000", "0000000000002000", "0000000000000000"},
		{"bind", "nobody", []any{"net_bind_service"}, []any{"all"}, "0000000000000400", "0000000000000400", "0000000000000400"},
	} {
		config := sh("cat /proc/self/status")
		config["cap_add"], config["cap_drop"] = x.add, x.drop
		task := c.task(x.name, config)
		task.User = x.user
		out, _ := c.run(task)
		if status(out, "CapEff") != x.effective || status(out, "CapBnd") != x.bounding || status(out, "CapAmb") != x.ambit {
			t.Errorf("%s: effective %s, bounding %s, ambient %s", x.name, status(out, "CapEff"), status(out, "CapBnd"), status(out, "CapAmb"))
		}
		if status(out, "NoNewPrivs") != "1" || status(out, "Seccomp") != "2" {
			t.Errorf("%s: no_new_privs %s, seccomp %s", x.name, status(out, "NoNewPrivs"), status(out, "Seccomp"))
		}
	}
}

func TestCapabilitiesBeyondTheAllowedAreRefused(t *testing.T) {
	c := newCell(t, nil)
	config := sh("true")
	config["cap_add"] = []any{"sys_admin", "net_bind_service"}
	_, _, err := c.StartTask(c.ctx, c.task("a", config))
	if !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "sys_admin") || strings.Contains(err.Error(), "net_bind") {
		t.Fatalf("error %v", err)
	}
	config["cap_add"] = []any{"fly"}
	if _, _, err := c.StartTask(c.ctx, c.task("b", config)); !errdefs.IsInvalidArgument(err) {
		t.Fatalf("a capability that does not exist: %v", err)
	}
	c.configure(map[string]any{"allow_caps": []any{"chown"}})
	task := c.task("c", sh("cat /proc/self/status"))
	task.User = "root"
	if out, _ := c.run(task); status(out, "CapBnd") != "0000000000000001" {
		t.Fatalf("bounding %s, want what is left of the default", status(out, "CapBnd"))
	}
}

func TestTasksRunAsNobodyOrAsTheUserTheyNameUnlessItIsDenied(t *testing.T) {
	c := newCell(t, nil)
	if out := c.script("nobody", "id -un"); out != "nobody\n" {
		t.Fatalf("as %q", out)
	}
	task := c.task("daemon", sh("id -un > /dev/stdout; touch /local/mine; stat -c %U /local/mine"))
	task.User = "daemon"
	if out, _ := c.run(task); out != "daemon\ndaemon\n" {
		t.Fatalf("as %q", out)
	}
	c.configure(map[string]any{"denied_host_uids": "0,1000-2000"})
	task = c.task("root", sh("true"))
	task.User = "root"
	if _, _, err := c.StartTask(c.ctx, task); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), "denied_host_uids") {
		t.Fatalf("a denied user: %v", err)
	}
	c.configure(map[string]any{"denied_host_gids": "65534"})
	if _, _, err := c.StartTask(c.ctx, c.task("group", sh("true"))); !errdefs.IsPermissionDenied(err) {
		t.Fatalf("a denied group: %v", err)
	}
	c.configure(nil)
	task.User = "nosuchuser"
	if _, _, err := c.StartTask(c.ctx, task); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "nosuchuser") {
		t.Fatalf("a user that does not exist: %v", err)
	}
}

func TestDevicesAndMountsOfATaskAreThereAndNoOthers(t *testing.T) {
	c := newCell(t, nil)
	volume := filepath.Join(c.dir, "volume")
	if err := os.MkdirAll(filepath.Join(volume, "sub"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(volume, 0o777); err != nil {
		t.Fatal(err)
	}
	device := ""
	for _, d := range []string{"/dev/net/tun", "/dev/fuse", "/dev/loop-control", "/dev/vcs"} {
		if _, err := os.Stat(d); err == nil && device == "" {
			device = d
		}
	}
	task := c.task("a", sh(`
		echo hello > /data/deep/here && touch /frozen/x
		[ -c /dev/mine/it ] && (: < /dev/mine/it) && echo opened
		[ -c /dev/mine/it ] && (: > /dev/mine/it) && echo WRITTEN
		[ -e /dev/net ] || [ -e /dev/fuse ] || [ -e /dev/loop-control ] || [ -e /dev/vcs ] || echo no others
		exit 0`))
	task.User = "root"
	task.Mounts = []driver.Mount{{HostPath: volume, TaskPath: "/data/deep"}, {HostPath: volume, TaskPath: "frozen", ReadOnly: true}}
	want := "no others\n"
	if device != "" {
		task.Devices = []driver.Device{{HostPath: device, TaskPath: "/dev/mine/it", Permissions: "r"}}
		want = "opened\nno others\n"
	}
	out, r := c.run(task)
	if !r.Successful() || !strings.Contains(out, want) || strings.Contains(out, "WRITTEN") || !strings.Contains(out, "Read-only file system") {
		t.Fatalf("%+v, %q", r, out)
	}
	if raw, err := os.ReadFile(filepath.Join(volume, "here")); err != nil || string(raw) != "hello\n" {
		t.Fatalf("the volume holds %q, %v", raw, err)
	}
	task = c.task("b", sh("true"))
	task.Mounts = []driver.Mount{{HostPath: volume, TaskPath: "/usr/share/no-such-place"}}
	if _, _, err := c.StartTask(c.ctx, task); err == nil || !strings.Contains(err.Error(), "/usr/share/no-such-place") {
		t.Fatalf("a mount where the task sees the machine: %v", err)
	}
	if _, err := os.Stat("/usr/share/no-such-place"); err == nil {
		t.Fatal("a directory was made on the machine")
	}
	task.Mounts, task.Devices = nil, []driver.Device{{HostPath: "/dev/no-such-device"}}
	if _, _, err := c.StartTask(c.ctx, task); err == nil || !strings.Contains(err.Error(), "/dev/no-such-device") {
		t.Fatalf("a device that does not exist: %v", err)
	}
}

func TestLinksInTheTaskDirectoryLeadNowhereElse(t *testing.T) {
	c := newCell(t, nil)
	victim := filepath.Join(c.dir, "victim")
	if err := os.Mkdir(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dev", "proc", "sys"} {
		task := c.task("link-"+name, sh("true"))
		if err := os.Symlink(victim, filepath.Join(task.TaskDir, name)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.StartTask(c.ctx, task); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s as a link: %v", name, err)
		}
	}
	task := c.task("target", sh("true"))
	if err := os.Symlink(victim, filepath.Join(task.TaskDir, "data")); err != nil {
		t.Fatal(err)
	}
	task.Mounts = []driver.Mount{{HostPath: "/etc", TaskPath: "/data/made"}}
	_, _, _ = c.StartTask(c.ctx, task) // it may be refused, or created inside: only the outside is checked
	_ = c.DestroyTask(c.ctx, task.Ref(), true)
	if entries, err := os.ReadDir(victim); err != nil || len(entries) != 0 {
		t.Fatalf("outside: %v, %v", entries, err)
	}
}

func TestTheResolverAndTheWorkingDirectoryAreTheTasks(t *testing.T) {
	c := newCell(t, nil)
	config := sh("pwd; cat /etc/resolv.conf")
	config["work_dir"] = "/local"
	task := c.task("a", config)
	if _, err := os.Stat("/etc/resolv.conf"); err == nil {
		task.DNS = &driver.DNSConfig{Servers: []string{"192.0.2.1"}, Searches: []string{"example.org"}, Options: []string{"ndots:2"}}
	}
	out, r := c.run(task)
	if !r.Successful() || !strings.HasPrefix(out, "/local\n") || task.DNS != nil && out != "/local\nsearch example.org\nnameserver 192.0.2.1\noptions ndots:2\n" {
		t.Fatalf("%+v, %q", r, out)
	}
	config["work_dir"] = "/no/such/place"
	if _, _, err := c.StartTask(c.ctx, c.task("b", config)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "work_dir") {
		t.Fatalf("a directory that does not exist: %v", err)
	}
	config["work_dir"] = "local"
	if _, _, err := c.StartTask(c.ctx, c.task("c", config)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "absolute") {
		t.Fatalf("a relative directory: %v", err)
	}
}

// network creates a network namespace and returns its file and its name.
func network(t *testing.T) (file, name string) {
	t.Helper()
	other := exec.Command("unshare", "-n", "sh", "-c", "readlink /proc/self/ns/net; exec sleep 1000")
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Skipf("no network namespace can be made: %v", err)
	}
	t.Cleanup(func() {
		_ = other.Process.Kill() // it sleeps
		_ = other.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Skipf("no network namespace can be made: %v", err)
	}
	return fmt.Sprintf("/proc/%d/ns/net", other.Process.Pid), strings.TrimSpace(line)
}

func TestATaskJoinsANetworkNamespaceAndHasItsHostname(t *testing.T) {
	c := newCell(t, nil)
	file, want := network(t)
	task := c.task("a", sh("readlink /proc/self/ns/net; hostname"))
	task.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: file, Hostname: "inside"}
	if out, r := c.run(task); !r.Successful() || out != want+"\ninside\n" {
		t.Fatalf("%+v, %q, want %s", r, out, want)
	}
	task = c.task("addressed", sh("getent hosts inside; head -n 1 /etc/hosts; touch /etc/hosts || echo read-only"))
	task.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: file, Hostname: "inside", Address: "172.26.64.7"}
	if out, r := c.run(task); !r.Successful() || !slices.Equal(strings.Fields(out)[:3], []string{"172.26.64.7", "inside", "127.0.0.1"}) || !strings.Contains(out, "read-only") {
		t.Fatalf("%+v, %q", r, out)
	}
	task = c.task("misaddressed", sh("true"))
	task.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: file, Address: "x\n1.2.3.4"}
	if _, _, err := c.StartTask(c.ctx, task); err == nil || !strings.Contains(err.Error(), "not an IP address") {
		t.Fatalf("an address that is none: %v", err)
	}
	task = c.task("b", sh("true"))
	task.Network = &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: "/no/such/namespace"}
	if _, _, err := c.StartTask(c.ctx, task); err == nil || !strings.Contains(err.Error(), "/no/such/namespace") {
		t.Fatalf("a namespace that does not exist: %v", err)
	}
}

func TestMountsPropagateAsTheVolumeSays(t *testing.T) {
	c := newCell(t, map[string]any{"allow_caps": []any{"all"}})
	volume := filepath.Join(c.dir, "volume")
	for _, sub := range []string{"from-host", "from-task"} {
		if err := os.MkdirAll(filepath.Join(volume, sub), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mount(volume, volume, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, dir := range []string{"from-host", "from-task", "."} {
			_ = syscall.Unmount(filepath.Join(volume, dir), syscall.MNT_DETACH) // if it is a mount point
		}
	}()
	if err := syscall.Mount("", volume, "", syscall.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	config := sh(`mount -t tmpfs tmpfs /both/from-task || echo NOT MOUNTED; touch /both/from-task/x; echo up
		until [ -e /slave/from-host/y ] && [ -e /both/from-host/y ]; do sleep 0.01; done; ls -A /private-one/from-host /private-one/from-task`)
	config["cap_add"] = []any{"sys_admin"}
	task := c.task("a", config)
	task.User = "root"
	for at, mode := range map[string]string{"/both": "bidirectional", "/slave": "host-to-task", "/private-one": "private"} {
		task.Mounts = append(task.Mounts, driver.Mount{HostPath: volume, TaskPath: at, PropagationMode: mode})
	}
	c.start(task)
	c.eventually("it is up", func() bool { return strings.Contains(c.output(task), "up\n") })
	if _, err := os.Stat(filepath.Join(volume, "from-task", "x")); err != nil {
		t.Errorf("the task's mount is not on the machine: %v; %s", err, c.output(task))
	}
	if err := syscall.Mount("tmpfs", filepath.Join(volume, "from-host"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "from-host", "y"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := c.WaitTask(c.ctx, task.ID); err != nil || !r.Successful() || c.output(task) != "up\n/private-one/from-host:\n\n/private-one/from-task:\n" {
		t.Fatalf("%+v, %v, %q", r, err, c.output(task))
	}
	odd := c.task("b", sh("true"))
	odd.Mounts = []driver.Mount{{HostPath: volume, TaskPath: "/odd", PropagationMode: "sideways"}}
	if _, _, err := c.StartTask(c.ctx, odd); !errdefs.IsInvalidArgument(err) {
		t.Fatalf("an unknown mode: %v", err)
	}
}
