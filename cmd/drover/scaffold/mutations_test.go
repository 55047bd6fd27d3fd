// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package scaffold_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/cmd/drover/scaffold"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest"
)

// mutation is a mistake that an author could make in a generated driver. The contract's
// suite must find it. Two are left out that it does not find: DestroyTask does not wait for a
// start that it gives up (it looks for what the start has left, which comes to the same), and
// a missing program is an error that may pass (no config with one fits every driver).
type mutation struct{ what, file, old, new string }

var mutations = []mutation{
	// driver.go: what the driver says of itself, and how tasks begin
	{"the fingerprint goes on for ever", "driver.go", "select {\n\t\t\tcase <-ticker.C:\n\t\t\tcase <-ctx.Done():\n\t\t\t\treturn\n\t\t\t}", "<-ticker.C"},
	{"a health that nobody knows", "driver.go", "Health: driver.HealthHealthy,", `Health: "fine",`},
	{"a fingerprint about the machine", "driver.go", `"driver." + Name: "1"`, `"kernel.name": "windows"`},
	{"a user is ignored", "driver.go", `if config.User != "" {`, "if false {"},
	{"the environment is lost", "driver.go", `s.Env = append(s.Env, name+"="+value)`, "_, _ = name, value"},
	{"the plugin's environment is passed on", "driver.go", "for name, value := range config.Env {", "s.Env = os.Environ()\n\tfor name, value := range config.Env {"},
	{"a handle of another task", "driver.go", "Handle{TaskID: config.ID", `Handle{TaskID: "x"`},
	{"a handle without its state", "driver.go", "Version: handleVersion, State: state}", "Version: handleVersion, State: state[:0]}"},
	{"any handle is read", "driver.go", "if h.Version != handleVersion {", "if false {"},
	{"a recovered task cannot be recovered again", "driver.go", "if d.tasks[h.TaskID] != nil {\n\t\treturn nil", "if d.tasks[h.TaskID] != nil {\n\t\treturn errdefs.AlreadyExistsf(\"known\")"},
	{"an unknown task is an internal error", "driver.go", `errdefs.NotFoundf("task %q is unknown`, `errdefs.Internalf("task %q is unknown`},

	// starts.go, runner.go: starts and what they leave
	{"a task that was begun is not looked for", "starts.go", `if ref.AllocDir == "" {`, "if true {"},
	{"a start that was given up goes on", "runner.go", "first.kill()", "_ = first"},
	{"a task ends with the call that started it", "runner.go", "exec.Command(self, RunnerCommand", "exec.CommandContext(ctx, self, RunnerCommand"},
	{"a task outside its cgroup", "process.go", "if err := s.Cgroup.Start(cmd); err != nil { ", "if err := cmd.Start(); err != nil { "},

	// runner.go: ends and output
	{"a signal that ended a task is lost", "runner.go", "ok && status.Signaled() {", "ok && status.Signaled() && false {"},
	{"every task ends well", "runner.go", "ExitResult{ExitCode: state.ExitCode()}", "ExitResult{}"},
	{"the outputs are swapped", "runner.go", "o.files[1+i] = w", "o.files[2-i] = w"},
	{"logs without a limit", "runner.go", "MaxFiles: s.Logs.MaxFiles", "MaxFiles: 100"},
	{"disabled logs are written", "runner.go", "if s.Logs.Disabled {", "if false {"},
	{"a task lives as long as its children's output", "runner.go", "_ = alive.Close() // readers get EOF now\n\tcopied.Wait()     // children of the task may still write", "copied.Wait()\n\t_ = alive.Close()"},

	// tasks.go: stop, signal, destroy, inspect
	{"a lost result is a success", "tasks.go", `driver.ExitResult{ExitCode: -1, Err: "exit code unknown: the task's runner was killed"}`, "driver.ExitResult{}"},
	{"children outlive the kill", "process.go", "syscall.Kill(-p.PID, syscall.SIGKILL)", "syscall.Kill(p.PID, syscall.SIGKILL)"},
	{"a task that is gone may come back", "tasks.go", `errdefs.NotFoundf("the task left no trace`, `errdefs.Unavailablef("the task left no trace`},
	{"a wait has no result", "tasks.go", "return t.result.Exit, nil", "return driver.ExitResult{}, nil"},
	{"a wait does not end with its call", "tasks.go", "case <-t.done:\n\t\treturn t.result.Exit, nil\n\tcase <-ctx.Done():\n\t\treturn driver.ExitResult{}, ctx.Err()", "case <-t.done:\n\t\treturn t.result.Exit, nil"},
	{"a stop kills at once", "tasks.go", `signal = "SIGTERM"`, `signal = "SIGKILL"`},
	{"a stop gives too little time", "tasks.go", "time.NewTimer(timeout)", "time.NewTimer(timeout / 20)"},
	{"a stop gives too much time", "tasks.go", "time.NewTimer(timeout)", "time.NewTimer(timeout * 20)"},
	{"a stop ignores the signal that is asked for", "tasks.go", `if signal == "" {`, "if true {"},
	{"a stop leaves the children", "tasks.go", "t.kill() // including the children it left behind\n\t\t<-t.done", "if !t.ended() {\n\t\t\tt.kill()\n\t\t}\n\t\t<-t.done"},
	{"a stop of what has ended fails", "tasks.go", "err != nil && !errdefs.IsFailedPrecondition(err) {", "err != nil {"},
	{"an unknown signal is an internal error", "tasks.go", `errdefs.InvalidArgumentf("unknown signal`, `errdefs.Internalf("unknown signal`},
	{"a signal to what has ended is sent", "tasks.go", "if t.ended() {\n\t\treturn errdefs.FailedPreconditionf(\"the task has ended\")", "if false {\n\t\treturn nil"},
	{"a task that runs is destroyed without force", "tasks.go", "if !force {\n\t\t\treturn errdefs.FailedPreconditionf(\"task %q still runs", "if false {\n\t\t\treturn errdefs.FailedPreconditionf(\"task %q still runs"},
	{"a destroyed task is known", "tasks.go", "d.forget(ref.ID)", "_ = ref"},
	{"an unknown task cannot be destroyed", "tasks.go", "return err // nil if nothing is left of the task", `return errdefs.NotFoundf("unknown")`},
	{"nobody knows when a task started", "tasks.go", "StartedAt: t.StartedAt, Attributes", "Attributes"},
	{"an ended task has no result", "tasks.go", "s.State, s.Exit, s.ExitedAt = driver.TaskExited, &exit, t.result.ExitedAt", "s.State, _ = driver.TaskExited, exit"},

	// streams.go: statistics, events, exec
	{"ended tasks are measured", "streams.go", "if t == nil || t.ended() {", "if t == nil {"},
	{"a task without memory", "streams.go", "pages*uint64(os.Getpagesize())", "pages*0"},
	{"events go on for ever", "streams.go", "close(out)", "_ = out"},
	{"a command in what has ended is an internal error", "streams.go", `errdefs.FailedPreconditionf("task %q does not run"`, `errdefs.Internalf("task %q does not run"`},
	// process.go: commands in a task
	{"every command ends well", "streams.go", "return exitOf(state), nil", "_ = state\n\treturn driver.ExitResult{}, nil"},
	{"the outputs of a command are one", "process.go", "cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stderr", "cmd.Stdout, cmd.Stderr = stream.Stdout, stream.Stdout"},
	{"the input of a command never ends", "process.go", "_ = stdin.Close()", "_ = stdin"},
	{"children of a command outlive it", "process.go", "return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)", "return syscall.Kill(cmd.Process.Pid, syscall.SIGKILL)"},
	{"a command has the plugin's environment", "process.go", "cmd.Env, cmd.Dir = s.Env, s.Dir\n\tcmd.Stdout", "cmd.Dir = s.Dir\n\tcmd.Stdout"},
	{"a command that is missing is an internal error", "process.go", "errdefs.InvalidArgumentf(\"run %q: %w\", command[0], err)\n\t}\n\tcmd := ", "errdefs.Internalf(\"run %q: %w\", command[0], err)\n\t}\n\tcmd := "},
}

// generated writes the driver that is mutated.
func generated(t *testing.T) string {
	t.Helper()
	dir, _, err := scaffold.Write(scaffold.Options{Name: "mutant", Kind: "driver", Dir: t.TempDir(), Module: "example.org/mutant", Replace: "../../.."})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestEachMutationChangesTheGeneratedDriver(t *testing.T) {
	dir := generated(t)
	known := map[string]bool{}
	for _, m := range mutations {
		body, err := os.ReadFile(filepath.Join(dir, "mutant", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(body), m.old); n != 1 || m.old == m.new || known[m.what] {
			t.Errorf("%s: %s has %q %d times; want a mutation of its own of one place", m.what, m.file, m.old, n)
		}
		known[m.what] = true
	}
	if len(known) < 40 {
		t.Errorf("%d mutations, want 40", len(known))
	}
}

// mutant is the variable that names the plugin which TestAMutant checks.
const mutant = "DROVER_MUTANT"

// TestAMutant is the test of a generated driver, in a process of its own for each mutation.
func TestAMutant(t *testing.T) {
	binary := os.Getenv(mutant)
	if binary == "" {
		t.Skip("it is run by TestTheSuiteFindsEachMutationOfTheGeneratedDriver")
	}
	drivertest.Run(t, drivertest.Options{
		Binary: binary, Name: "mutant", Parallel: true, Timeout: time.Minute,
		Script: func(s string) map[string]any {
			return map[string]any{"command": "/bin/sh", "args": []any{"-c", s}}
		},
	})
}

// suite builds the driver and returns the output of its test, and whether it passed. What a
// process shows is tried first, since that is found soonest. The driver's own test has it in
// the test's process, too, where a check sees what a connection hides.
func suite(t *testing.T, dir string) (out string, passed bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	binary := filepath.Join(dir, "plugin")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, said)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, self, "-test.failfast", "-test.parallel=8", "-test.run=^TestAMutant$")
	cmd.Env = append(os.Environ(), mutant+"="+binary)
	if said, err := cmd.CombinedOutput(); err != nil {
		return string(said), false
	}
	whole := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-parallel=8", "./mutant")
	whole.Dir, whole.Env = dir, build.Env
	said, err := whole.CombinedOutput()
	return string(said), err == nil
}

// TestTheSuiteFindsEachMutationOfTheGeneratedDriver takes some minutes, so it runs only when
// it is asked for: DROVER_MUTATIONS=all, or parts of names with commas between them.
func TestTheSuiteFindsEachMutationOfTheGeneratedDriver(t *testing.T) {
	asked := os.Getenv("DROVER_MUTATIONS")
	if asked == "" {
		t.Skip("it takes minutes: make mutations")
	}
	dir := generated(t)
	if out, passed := suite(t, dir); !passed {
		t.Fatalf("without a mutation:\n%s", out)
	}
	caught, tried := 0, 0
	for _, m := range mutations {
		named := func(part string) bool { return strings.Contains(m.what, part) }
		if asked != "all" && !slices.ContainsFunc(strings.Split(asked, ","), named) {
			continue
		}
		tried++
		t.Run(m.what, func(t *testing.T) {
			path := filepath.Join(dir, "mutant", m.file)
			body, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(body), m.old, m.new, 1)), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := os.WriteFile(path, body, 0o600); err != nil {
					t.Error(err)
				}
			}()
			out, passed := suite(t, dir)
			if passed {
				t.Fatal("NOT FOUND")
			}
			caught++
			t.Logf("found by %s", rule(out))
		})
	}
	t.Logf("%d of %d mutations were found", caught, tried)
}

// rule returns the name of the first check that failed.
func rule(out string) string {
	name := "no rule"
	for line := range strings.Lines(out) {
		if test, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(test, " ")
		}
	}
	return fmt.Sprintf("%q", name)
}
