// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestTheOperatorSaysWhatTasksSeeOfTheMachine(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("shown\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, filepath.Dir(dir)} { // the directories of a test are closed to other users
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := newCell(t, map[string]any{"chroot_env": map[string]any{
		"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr", dir: "/opt/machine", filepath.Join(dir, "note"): "/etc/one-file", "/no/such/place": "/none",
	}})
	out := c.script("a", "cat /opt/machine/note /etc/one-file; ls /etc; ls -d /none /sbin 2>/dev/null; touch /opt/machine/x 2>/dev/null && echo WRITTEN; true")
	if out != "shown\nshown\none-file\n" {
		t.Errorf("output %q", out)
	}
	for _, chroot := range []map[string]any{{"bin": "/bin"}, {"/bin": "bin"}, {"/bin": "/"}} {
		info := c.Info()
		config, err := info.ConfigSchema.Apply(map[string]any{"chroot_env": chroot})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.SetConfig(context.Background(), marshal(t, config)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "chroot_env") {
			t.Errorf("%v: %v", chroot, err)
		}
	}
}

func TestWhatATasksOwnDirectoriesWouldHideIsRefusedInTheOperatorsList(t *testing.T) {
	c := newCell(t, map[string]any{"chroot_env": map[string]any{
		"/bin": "/bin", "/lib": "/lib", "/lib64": "/lib64", "/usr": "/usr", "/sys": "/sys/", "/proc": "/proc", "/dev/": "/dev",
	}})
	if out := c.script("a", "test -d /sys/kernel && test -c /dev/null && test -d /proc/self && echo all"); out != "all\n" {
		t.Errorf("with the kernel's file systems in the list: %q", out)
	}
	for _, to := range []string{"/alloc", "/alloc/x", "/local/x", "/secrets", "/tmp", "/private/x", "/dev", "/dev/shm", "/proc/x", "/sys/fs", "/usr/../tmp"} {
		if err := c.SetConfig(c.ctx, marshal(t, map[string]any{"chroot_env": map[string]any{"/opt": to}})); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "of its own, which would hide it") {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestACommandThatIsNotThereIsTheReasonOfTheFailure(t *testing.T) {
	c := newCell(t, nil)
	for command, want := range map[string]string{"no-such-command": "command_not_found", "/no/such/place": "command_not_found", "/etc": ""} {
		_, _, err := c.StartTask(c.ctx, c.task("missing", map[string]any{"command": command}))
		if !errdefs.IsInvalidArgument(err) || errdefs.ReasonOf(err) != want {
			t.Errorf("%s: reason %q: %v", command, errdefs.ReasonOf(err), err)
		}
	}
}

func TestTheOperatorSaysWhichNamespacesTasksShareThatSayNothing(t *testing.T) {
	c := newCell(t, nil)
	here := map[string]string{}
	for _, kind := range []string{"pid", "ipc", "mnt", "cgroup"} {
		link, err := os.Readlink("/proc/self/ns/" + kind)
		if err != nil {
			t.Fatal(err)
		}
		here[kind] = link
	}
	shares := func(name string, config map[string]any) string {
		var out []string
		text, r := c.run(c.task(name, config))
		if !r.Successful() {
			t.Fatalf("%s: %+v, %q", name, r, text)
		}
		for _, kind := range []string{"pid", "ipc", "mnt", "cgroup"} {
			if strings.Contains(text, here[kind]) {
				out = append(out, kind)
			}
		}
		return strings.Join(out, " ")
	}
	look := func(pid, ipc string) map[string]any {
		config := sh("for n in pid ipc mnt cgroup; do readlink /proc/self/ns/$n; done")
		if pid != "" {
			config["pid_mode"] = pid
		}
		if ipc != "" {
			config["ipc_mode"] = ipc
		}
		return config
	}
	if got := shares("nothing", look("", "")); got != "" {
		t.Errorf("by default a task shares %q", got)
	}
	c.configure(map[string]any{"default_pid_mode": "host"})
	if got := shares("pid", look("", "")); got != "pid" {
		t.Errorf("with default_pid_mode = host a task shares %q", got)
	}
	c.configure(map[string]any{"default_ipc_mode": "host"})
	if got := shares("ipc", look("", "")); got != "ipc" {
		t.Errorf("with default_ipc_mode = host a task shares %q", got)
	}
	c.configure(map[string]any{"default_ipc_mode": "host", "allowed_modes": map[string]any{"pid": []any{"host"}}})
	if got := shares("own", look("host", "private")); got != "pid" {
		t.Errorf("a task that says otherwise shares %q", got)
	}
	for _, name := range []string{"default_pid_mode", "default_ipc_mode"} {
		if err := c.SetConfig(c.ctx, []byte(`{"`+name+`": "shared"}`)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s = shared: %v", name, err)
		}
	}
}

// TestNoTaskBreaksOutWithoutPivotRoot runs the probes with no_pivot_root, which is
// for machines whose root is a ramfs.
func TestNoTaskBreaksOutWithoutPivotRoot(t *testing.T) {
	newCell(t, map[string]any{"no_pivot_root": true}).tryEscapes("probe", "root")
}

func TestArgumentsReachTheCommandAsTheyAre(t *testing.T) {
	c := newCell(t, nil)
	args := []any{"%s|", "a b", "", "$HOME", "*", `"q"`, "ü"}
	out, r := c.run(c.task("a", map[string]any{"command": "printf", "args": args}))
	if !r.Successful() || out != `a b||$HOME|*|"q"|ü|` {
		t.Errorf("%+v, %q", r, out)
	}
}

func TestOutputGoesNowhereWhereTheJobSaysSo(t *testing.T) {
	c := newCell(t, nil)
	quiet := c.task("quiet", sh("echo out; echo err >&2; head -c 1000000 /dev/zero; exit 4"))
	quiet.Logs.Disabled = true
	if out, r := c.run(quiet); r.ExitCode != 4 || out != "" {
		t.Errorf("%+v, %q", r, out)
	}
	if files, err := os.ReadDir(filepath.Dir(quiet.Logs.StdoutPath)); err != nil || len(files) != 0 {
		t.Errorf("files %v, %v", files, err)
	}
	loud := c.task("loud", sh("echo out; echo err >&2"))
	c.run(loud)
	out, err := os.ReadFile(loud.Logs.StdoutPath + ".0")
	errs, errErr := os.ReadFile(loud.Logs.StderrPath + ".0")
	if err != nil || errErr != nil || string(out) != "out\n" || string(errs) != "err\n" {
		t.Errorf("stdout %q, %v; stderr %q, %v", out, err, errs, errErr)
	}
}

// TestACommandThatNothingCanRunIsRefusedBeforeTheStart: of exec and raw_exec alike.
func TestACommandThatNothingCanRunIsRefusedBeforeTheStart(t *testing.T) {
	raw := driverexec.NewRawExec(t.TempDir())
	exec := driverexec.NewExec(t.TempDir())
	for config, want := range map[string]string{
		`{"command": ""}`: "config.command: is empty; name the program to run",
		`{"command": "a\u0000b", "args": ["a", "\u0000"]}`: "config.command: contains a zero byte, which no program can be given; remove it, config.args[1]: contains a zero byte, which no program can be given; remove it",
		`{"command": "true", "args": [""]}`:                "",
	} {
		for name, d := range map[string]driver.Validator{"exec": exec, "raw_exec": raw} {
			found, err := d.ValidateTask(t.Context(), &driver.TaskDraft{DriverConfig: []byte(config)})
			var got []string
			for _, f := range found {
				got = append(got, f.String())
			}
			if err != nil || strings.Join(got, ", ") != want {
				t.Errorf("%s of %s: %q, %v; want %q", config, name, got, err, want)
			}
		}
	}
}

func TestAConfigIsRefusedBeforeTheStartWithAllThatIsWrong(t *testing.T) {
	c := newCell(t, map[string]any{"allow_caps": []any{"chown"}})
	task := c.task("wrong", map[string]any{"command": "true", "work_dir": "bin", "cap_add": []any{"sys_admin"}, "pid_mode": "host", "init": false})
	found, err := c.closer.(driver.Validator).ValidateTask(c.ctx, &driver.TaskDraft{DriverConfig: task.DriverConfig})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, d := range found {
		paths = append(paths, d.Path)
		if d.Severity != driver.SeverityError || d.Summary == "" || strings.HasPrefix(d.Summary, "config.") {
			t.Errorf("%+v", d)
		}
	}
	if got := strings.Join(paths, " "); got != "config.cap_add config.work_dir config.pid_mode config.init" {
		t.Errorf("%s: %+v", got, found)
	}
	if _, _, err := c.StartTask(c.ctx, task); !errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), found[0].Summary) {
		t.Errorf("StartTask says %v", err)
	}
	misspelled := c.task("misspelled", map[string]any{"command": "true", "cap_drop": []any{"chwon"}})
	if found, err := c.closer.(driver.Validator).ValidateTask(c.ctx, &driver.TaskDraft{DriverConfig: misspelled.DriverConfig}); err != nil || len(found) != 1 || found[0].Path != "config.cap_drop" {
		t.Errorf("%+v, %v", found, err)
	}
	if found, err := c.closer.(driver.Validator).ValidateTask(c.ctx, &driver.TaskDraft{DriverConfig: c.task("right", sh("true")).DriverConfig}); err != nil || len(found) > 0 {
		t.Errorf("%+v, %v", found, err)
	}
}
