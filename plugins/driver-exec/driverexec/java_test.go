// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
	"github.com/drover-project/drover/sdk/errdefs"
)

// needJava skips the test if there is no JVM. CI has one.
func needJava(t testing.TB) {
	t.Helper()
	needIsolation(t)
	if _, err := exec.LookPath("java"); err != nil {
		t.Skipf("no JVM: %v (apt-get install default-jre-headless)", err)
	}
}

// small are options for a JVM with a small heap.
var small = []any{"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx24m"}

// newJavaCell returns a cell with the driver java.
func newJavaCell(t testing.TB, config map[string]any) *cell {
	t.Helper()
	needJava(t)
	return newCellOf(t, config, func(dir string) closer { return driverexec.NewJava(dir) })
}

// java returns a task with probe.jar and Probe.class in its local directory, as if
// fetched by an artifact.
func (c *cell) java(name string, config map[string]any) *driver.TaskConfig {
	c.t.Helper()
	if config["jvm_options"] == nil {
		config["jvm_options"] = small
	}
	task := c.task(name, config)
	task.Resources.MemoryMB = 256
	placeProbe(c.t, filepath.Join(task.TaskDir, "local"))
	return task
}

func placeProbe(t testing.TB, dir string) {
	t.Helper()
	class, err := os.ReadFile("testdata/java/Probe.class")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "Probe.class"), class, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "probe.jar"))
	if err != nil {
		t.Fatal(err)
	}
	jar := zip.NewWriter(file)
	for name, body := range map[string]string{"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\nMain-Class: Probe\n", "Probe.class": string(class)} {
		w, err := jar.Create(name)
		if err == nil {
			_, err = w.Write([]byte(body))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := jar.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// A real JVM runs the scripts of the suite. Probe sends their signals and exits.
func TestJavaKeepsTheContract(t *testing.T) {
	needJava(t)
	o := contract(t, "java", driverexec.NewJava)
	o.Script = func(s string) map[string]any {
		return map[string]any{"jar_path": "local/probe.jar", "jvm_options": small, "args": []any{"sh", s}}
	}
	o.Task = func(c *driver.TaskConfig) {
		openFolders(t, c)
		placeProbe(t, filepath.Join(c.TaskDir, "local"))
		c.Env["NOMAD_TASK_DIR"], c.Resources.MemoryMB = "/local", 256
	}
	drivertest.Run(t, o)
}

func TestAJarRunsFromTheTasksDirectoryWithItsOptionsAndArguments(t *testing.T) {
	c := newJavaCell(t, nil)
	for name, jar := range map[string]string{"relative": "local/probe.jar", "bare": "probe.jar", "absolute": "/local/probe.jar"} {
		out, r := c.run(c.java(name, map[string]any{
			"jar_path": jar, "args": []any{"show", "one", "two words"}, "jvm_options": append([]any{"-Dprobe=seen"}, small...),
		}))
		if !r.Successful() || !strings.Contains(out, "args=[show, one, two words]\nprobe=seen\ncwd=/\nuser=nobody\n") {
			t.Errorf("%s: %+v, %q", name, r, out)
		}
	}
}

func TestAClassRunsFromItsClassPathOrFromTheJarInsteadOfItsMainClass(t *testing.T) {
	c := newJavaCell(t, nil)
	for name, x := range map[string]struct {
		config map[string]any
		cp     string
	}{
		"directory": {map[string]any{"class": "Probe", "class_path": "/local"}, "/local"},
		"relative":  {map[string]any{"class": "Probe", "class_path": "missing.jar:local"}, "missing.jar:local"},
		"in a jar":  {map[string]any{"class": "Probe", "jar_path": "local/probe.jar"}, "local/probe.jar"},
		"both":      {map[string]any{"class": "Probe", "jar_path": "local/probe.jar", "class_path": "/alloc"}, "local/probe.jar:/alloc"},
		"work_dir":  {map[string]any{"class": "Probe", "class_path": ".", "work_dir": "/local"}, "."},
	} {
		x.config["args"] = []any{"show"}
		out, r := c.run(c.java(name, x.config))
		if !r.Successful() || !strings.Contains(out, "args=[show]\n") || !strings.Contains(out, "classpath="+x.cp+"\n") {
			t.Errorf("%s: %+v, %q", name, r, out)
		}
	}
}

func TestAJavaTaskThatCannotRunIsRefusedAndSaysWhy(t *testing.T) {
	c := newJavaCell(t, map[string]any{"denied_host_uids": "1", "denied_host_gids": "60"})
	for name, x := range map[string]struct {
		config map[string]any
		user   string
		says   string
	}{
		"nothing to run":    {map[string]any{"args": []any{"show"}}, "", "jar_path"},
		"no such jar":       {map[string]any{"jar_path": "local/none.jar"}, "", "/local/none.jar"},
		"no such directory": {map[string]any{"jar_path": "local/probe.jar", "work_dir": "/none"}, "", "/none"},
		"a way out":         {map[string]any{"jar_path": "../../../../etc/none.jar"}, "", "/etc/none.jar"},
		"relative work_dir": {map[string]any{"jar_path": "probe.jar", "work_dir": "local"}, "", "absolute"},
		"unknown mode":      {map[string]any{"jar_path": "local/probe.jar", "ipc_mode": "shared"}, "", "ipc_mode"},
		"forbidden":         {map[string]any{"jar_path": "local/probe.jar", "cap_add": []any{"sys_admin"}}, "", "sys_admin"},
		"denied":            {map[string]any{"jar_path": "local/probe.jar"}, "daemon", "denied_host_uids"},
		"denied group":      {map[string]any{"jar_path": "local/probe.jar"}, "games", "denied_host_gids"},
	} {
		task := c.java(name, x.config)
		task.User = x.user
		_, _, err := c.StartTask(c.ctx, task)
		if !errdefs.IsInvalidArgument(err) && !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), x.says) {
			t.Errorf("%s: class %s, %v", name, errdefs.ClassOf(err), err)
		}
		if _, err := c.InspectTask(c.ctx, task.ID); !errdefs.IsNotFound(err) {
			t.Errorf("%s: something is left: %v", name, err)
		}
	}
}

func TestAJavaTaskEndsWithItsExitCodeOrGracefullyWhenItIsStopped(t *testing.T) {
	c := newJavaCell(t, nil)
	if _, r := c.run(c.java("seven", map[string]any{"jar_path": "local/probe.jar", "args": []any{"exit", "7"}})); r.ExitCode != 7 || r.Signal != 0 {
		t.Errorf("exit 7 came back as %+v", r)
	}
	for signal, code := range map[string]int{"SIGTERM": 143, "": 130} {
		task := c.java("serve"+signal, map[string]any{"jar_path": "local/probe.jar", "args": []any{"serve"}})
		c.start(task)
		c.eventually("it is up", func() bool { return strings.Contains(c.output(task), "up\n") })
		if err := c.StopTask(c.ctx, task.ID, 30*time.Second, signal); err != nil {
			t.Fatal(err)
		}
		// The JVM handles the signal: it runs its shutdown hooks and exits.
		if r, err := c.WaitTask(c.ctx, task.ID); err != nil || r.ExitCode != code || r.Signal != 0 || !strings.Contains(c.output(task), "bye\n") {
			t.Errorf("stopped by %q: %+v, %v, %q", signal, r, err, c.output(task))
		}
	}
}

func TestTheJVMKnowsItsLimitsAndIsKilledBeyondThem(t *testing.T) {
	c := newJavaCell(t, nil)
	for name, cores := range map[string][]int{"shared": nil, "own": {0}} {
		task := c.java(name, map[string]any{"jar_path": "local/probe.jar", "args": []any{"show"}, "jvm_options": []any{"-XX:MaxRAMPercentage=50"}})
		task.Resources.Cores = cores
		out, r := c.run(task)
		_, after, _ := strings.Cut(out, "maxmb=")
		line, _, _ := strings.Cut(after, "\n")
		if mb, err := strconv.Atoi(line); err != nil || !r.Successful() || mb < 100 || mb > 128 || len(cores) > 0 && !strings.Contains(out, "processors=1\n") {
			t.Errorf("%s cores: %+v, %q: the JVM does not see its 256 MB and its core", name, r, out)
		}
	}
	hog := c.java("hog", map[string]any{"jar_path": "local/probe.jar", "args": []any{"hog"}, "jvm_options": []any{"-XX:+UseSerialGC", "-Xmx1g"}})
	hog.Resources.MemoryMB = 96
	if out, r := c.run(hog); !r.OOMKilled || r.Signal != int(syscall.SIGKILL) || r.ExitCode != 137 {
		t.Errorf("%+v, %q", r, out)
	}
}

func TestAJavaTaskIsIsolatedAsExecsAreAndCommandsRunBesideIt(t *testing.T) {
	c := newJavaCell(t, map[string]any{"default_ipc_mode": "host", "default_pid_mode": "host"})
	here := func(kind string) string {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	const look = "id -u; pwd; readlink /proc/self/ns/pid; readlink /proc/self/ns/ipc; grep Cap /proc/self/status; echo up; exec sleep 1000"
	shared := c.java("shared", map[string]any{
		"jar_path": "/local/probe.jar", "args": []any{"sh", look}, "cap_add": []any{"net_bind_service"}, "cap_drop": []any{"all"}, "work_dir": "/alloc",
	})
	own := c.java("own", map[string]any{"jar_path": "local/probe.jar", "args": []any{"sh", look}, "pid_mode": "private", "ipc_mode": "private"})
	for _, task := range []*driver.TaskConfig{shared, own} {
		c.start(task)
		c.eventually("it is up", func() bool { return strings.Contains(c.output(task), "up\n") })
	}
	const bind = "0000000000000400"
	if out := c.output(shared); !strings.HasPrefix(out, "65534\n/alloc\n"+here("pid")+"\n"+here("ipc")+"\n") || status(out, "CapBnd") != bind || status(out, "CapAmb") != bind {
		t.Errorf("with the machine's namespaces: %q", out)
	}
	if out := c.output(own); !strings.HasPrefix(out, "65534\n/\n") || strings.Contains(out, here("pid")) || strings.Contains(out, here("ipc")) {
		t.Errorf("with its own namespaces: %q", out)
	}
	if out, r, err := c.exec(own, "cat", "/proc/1/comm"); err != nil || !r.Successful() || out != "drover-init\n" {
		t.Errorf("a command beside it: %q, %+v, %v", out, r, err)
	}
}

func TestAJavaTaskRunsWithoutPivotRoot(t *testing.T) {
	c := newJavaCell(t, map[string]any{"no_pivot_root": true})
	if out, r := c.run(c.java("a", map[string]any{"jar_path": "local/probe.jar", "args": []any{"show"}})); !r.Successful() || !strings.Contains(out, "cwd=/\n") {
		t.Errorf("%+v, %q", r, out)
	}
}

func TestAJVMThatTasksWouldNotSeeIsShownToThem(t *testing.T) {
	// Without /etc, where Debian stores the JVM's configuration, and without most of
	// /usr.
	chroot := map[string]any{"/lib64": "/lib64", "/usr/lib64": "/usr/lib64", "/lib": "/lib"}
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu"} {
		chroot[dir] = dir
	}
	c := newJavaCell(t, map[string]any{"chroot_env": chroot})
	out, r := c.run(c.java("a", map[string]any{"jar_path": "local/probe.jar", "args": []any{"show"}}))
	if !r.Successful() || !strings.Contains(out, "user=") {
		t.Fatalf("%+v, %q", r, out)
	}
}
