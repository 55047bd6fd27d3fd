// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package plugincheck_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/pluginhost/logpipe"
	"github.com/drover-project/drover/core/pluginhost/plugincheck"
	"github.com/drover-project/drover/sdk/conformance"
	"github.com/drover-project/drover/sdk/device/v1/devicecheck"
	"github.com/drover-project/drover/sdk/driver/v1/drivercheck"
	"github.com/drover-project/drover/sdk/errdefs"
)

const module = "github.com/drover-project/drover/"

// built has the plugins that are checked.
var built string

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-collect" {
		l, err := logpipe.Listen(filepath.Join(os.Args[2], logpipe.SocketName))
		if err == nil {
			err = logpipe.NewCollector(time.Second).Serve(context.Background(), l)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	dir, err := os.MkdirTemp("", "plugincheck")
	if err != nil {
		panic(err)
	}
	built = dir
	for _, pkg := range []string{"sdk/driver/v1/drivertest/testdata/driver-shell", "sdk/device/v1/devicetest/testdata/device-file", "core/pluginhost/testdata/nomadplugin", "core/pluginhost/testdata/testplugin", "core/pluginhost/testdata/versionplugin"} {
		if out, err := exec.Command("go", "build", "-o", dir+"/", module+pkg).CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// outcomes are the names of checks by what came of them, in all parts.
func outcomes(r *plugincheck.Report) map[conformance.Outcome][]string {
	out := map[conformance.Outcome][]string{}
	for _, p := range r.Parts {
		for _, res := range p.Results {
			out[res.Outcome] = append(out[res.Outcome], res.Name)
		}
	}
	return out
}

// except are the names of all checks of drivers but the given ones.
func except(names ...string) []string {
	var out []string
	for _, c := range drivercheck.Checks() {
		if !slices.Contains(names, c.Name) {
			out = append(out, c.Name)
		}
	}
	return out
}

func run(t *testing.T, opts plugincheck.Options) *plugincheck.Report {
	t.Helper()
	r, err := plugincheck.Run(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestADriverIsCheckedWithTheTaskThatItsSchemaSuggests(t *testing.T) {
	var watched []string
	r := run(t, plugincheck.Options{Path: filepath.Join(built, "driver-shell"), Watch: func(part string, r conformance.Result) {
		watched = append(watched, part+": "+r.Name)
	}})
	got := outcomes(r)
	// The example keeps no rotation, has no terminals, and says what else it does not do.
	if !slices.Equal(got[conformance.Failed], []string{"log-rotation"}) || !slices.Equal(got[conformance.Skipped], []string{"user", "mounts", "keeper-killed", "list-tasks", "checkpoint-restores", "checkpoint-holds", "network-again", "network-lost", "stats-slow", "progress", "read-logs", "exec-terminal", "exec-user"}) {
		t.Errorf("failed %q, skipped %q", got[conformance.Failed], got[conformance.Skipped])
	}
	if r.OK() || r.Name != "driver-shell" || r.BuiltFor != "drover" || !slices.Equal(r.Serves, []string{"driver v1"}) || r.Start <= 0 {
		t.Errorf("report %+v", r)
	}
	if len(watched) != r.Passed+r.Failed+r.Skipped || watched[0] != "process: handshake" || !slices.Contains(watched, `driver "shell": recover-ended`) {
		t.Errorf("watched %q", watched)
	}
}

func TestADevicePluginIsCheckedWithItsConfig(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := plugincheck.Options{Path: filepath.Join(built, "device-file"), Config: map[string]any{"dir": dir}}
	if r := run(t, opts); !r.OK() || r.Skipped > 0 || r.Passed < 10 {
		t.Errorf("with its config: %+v", r)
	}
	opts.Config = nil
	r := run(t, opts)
	if got := outcomes(r)[conformance.Failed]; !slices.Equal(got, []string{"agent-config"}) {
		t.Errorf("without its config %q failed, want one that says what is missing", got)
	}
	last := r.Parts[1].Results[0]
	if !strings.Contains(strings.Join(last.Problems, "\n"), "config.dir: required") {
		t.Errorf("it says %q", last.Problems)
	}
}

func TestAPluginBuiltForNomadIsChecked(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	topologies := 0
	r := run(t, plugincheck.Options{
		Topology: func() *model.Topology {
			topologies++
			return &model.Topology{Cores: make([]model.Core, 2)}
		},
		Path: filepath.Join(built, "nomadplugin"), LogCollector: []string{self, "-collect"},
		Task: func(s string) (map[string]any, error) { return map[string]any{"script": s}, nil }, Scripted: true,
		Skip: except("info", "exit-code", "unknown-task", "logs", "fingerprint", "double-start"),
	})
	got := outcomes(r)
	want := []string{"handshake", "by-hand", "process-info", "killed", "agent-config", "info", "exit-code", "unknown-task", "fingerprint", "logs"}
	if r.BuiltFor != "nomad" || !slices.Equal(got[conformance.Passed], want) {
		t.Errorf("%s: passed %q, want %q; failed %q", r.BuiltFor, got[conformance.Passed], want, got[conformance.Failed])
	}
	if topologies == 0 {
		t.Error("it was not told the cores of the machine")
	}
	// The test's plugin starts a task twice, and that is seen through its protocol, too.
	if !slices.Equal(got[conformance.Failed], []string{"double-start"}) {
		t.Errorf("failed %q", got[conformance.Failed])
	}
}

func TestWhatIsNoPluginFailsItsHandshakeAndNothingElseIsTried(t *testing.T) {
	path := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho hello\nexit 0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, plugincheck.Options{Path: path})
	if got := outcomes(r); !slices.Equal(got[conformance.Failed], []string{"handshake", "by-hand"}) || len(r.Parts) != 1 {
		t.Errorf("failed %q in %d parts", got[conformance.Failed], len(r.Parts))
	}
}

// TestAnInterruptedRunSaysSoAndFailsNoRule interrupts the handshake of a plugin that never
// shakes hands.
func TestAnInterruptedRunSaysSoAndFailsNoRule(t *testing.T) {
	dir := t.TempDir()
	path, begun := filepath.Join(dir, "silent"), filepath.Join(dir, "begun")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n: > "+begun+"\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		defer interrupt()
		for t.Context().Err() == nil {
			if _, err := os.Stat(begun); err == nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}()
	r, err := plugincheck.Run(ctx, plugincheck.Options{Path: path})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if len(r.Parts) != 1 || len(r.Parts[0].Results) != 1 || r.Failed != 0 || r.Skipped != 1 || r.Parts[0].Results[0].Reason != "interrupted" {
		t.Errorf("the report is %+v", r)
	}
}

func TestThingsOfOneNameThatWantDifferentConfigsAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one-name")
	if err := os.Symlink(filepath.Join(built, "testplugin"), path); err != nil {
		t.Fatal(err)
	}
	skip := append(except(), "by-hand", "killed", "agent-config")
	for _, c := range devicecheck.Checks() {
		skip = append(skip, c.Name)
	}
	r := run(t, plugincheck.Options{Path: path, Skip: skip})
	problems := strings.Join(r.Parts[0].Results[2].Problems, "\n")
	if got := outcomes(r)[conformance.Failed]; !slices.Equal(got, []string{"process-info"}) || !strings.Contains(problems, `"same"`) {
		t.Errorf("failed %q: %s", got, problems)
	}
}

func TestTwoOfOneKindWithOneNameAreTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "twins")
	if err := os.Symlink(filepath.Join(built, "testplugin"), path); err != nil {
		t.Fatal(err)
	}
	r := run(t, plugincheck.Options{Path: path, Skip: []string{"by-hand", "killed", "agent-config"}})
	problems := strings.Join(r.Parts[0].Results[2].Problems, "\n")
	for _, kind := range []string{"network plugin", "storage plugin", "registry"} {
		if !strings.Contains(problems, "two of kind "+kind+" have the same name") {
			t.Errorf("not told of kind %s: %s", kind, problems)
		}
	}
}

func TestAProcessThatSaysSomethingElseThanTheOneBeforeIsTold(t *testing.T) {
	body, err := os.ReadFile(filepath.Join(built, "versionplugin"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, version := range []string{"1", "2"} {
		one := append(slices.Clone(body), "\n{\"Version\": \""+version+"\", \"Drivers\": [\"shell\"]}"...)
		if err := os.WriteFile(filepath.Join(dir, version), one, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "fickle")
	script := "#!/bin/sh\n[ -e " + dir + "/again ] && exec " + dir + "/2\n: > " + dir + "/again; exec " + dir + "/1\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, plugincheck.Options{Path: path, Skip: append(except(), "by-hand")})
	if got := outcomes(r)[conformance.Failed]; !slices.Equal(got, []string{"killed"}) {
		t.Errorf("failed %q: %+v", got, r.Parts[0].Results)
	}
}

func TestWhatCannotBeCheckedIsAnError(t *testing.T) {
	if _, err := plugincheck.Run(t.Context(), plugincheck.Options{Path: "/no/such/plugin"}); !errdefs.IsNotFound(err) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := plugincheck.Run(t.Context(), plugincheck.Options{Path: filepath.Join(built, "driver-shell"), Name: "other"}); !errdefs.IsNotFound(err) {
		t.Errorf("a name that it does not serve: %v", err)
	}
}

func TestWhyNoTaskIsStartedIsSaidOnce(t *testing.T) {
	r := run(t, plugincheck.Options{Path: filepath.Join(built, "driver-shell"), Skip: except("info", "double-start", "exit-code"),
		Task: func(string) (map[string]any, error) { return nil, errdefs.InvalidArgumentf("nothing to run") }})
	said := 0
	for _, res := range r.Parts[1].Results {
		if strings.Contains(res.Reason, "nothing to run") {
			said++
		}
	}
	got := outcomes(r)
	if said != 1 || !slices.Contains(got[conformance.Skipped], "task-config") || !slices.Contains(got[conformance.Skipped], "double-start") || !slices.Contains(got[conformance.Passed], "info") {
		t.Errorf("said %d times; %+v", said, got)
	}
}

func TestAFixedTaskIsCheckedAsFarAsItGoes(t *testing.T) {
	seen := []string{"start-killed", "start-cancelled", "recover-running"} // by the processes of the task
	r := run(t, plugincheck.Options{Path: filepath.Join(built, "driver-shell"), Skip: except(append(seen, "double-start", "exit-code")...),
		Task: func(string) (map[string]any, error) { return map[string]any{"script": "sleep 600"}, nil }})
	got := outcomes(r)
	if !slices.Contains(got[conformance.Passed], "double-start") || !slices.Contains(got[conformance.Skipped], "exit-code") {
		t.Errorf("with a fixed task: %+v", got)
	}
	for _, name := range seen {
		if runtime.GOOS == "linux" && !slices.Contains(got[conformance.Passed], name) {
			t.Errorf("%s with a fixed task: %+v", name, r.Parts[1].Results)
		}
	}
}

// TestWhatAPluginForksEndsWithTheCheck has a plugin that leaves a process in a session of
// its own at each start.
func TestWhatAPluginForksEndsWithTheCheck(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("processes are found by their environment on Linux only")
	}
	sleep := fmt.Sprintf("6%d", os.Getpid())
	path := filepath.Join(t.TempDir(), "forks")
	script := "#!/bin/sh\nsetsid sleep " + sleep + " >/dev/null 2>&1 </dev/null &\nexec " + filepath.Join(built, "driver-shell") + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if r := run(t, plugincheck.Options{Path: path, Skip: append(except("info"), "by-hand")}); r.Passed == 0 {
		t.Fatalf("nothing passed: %+v", r)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		if body, err := os.ReadFile(file); err == nil && string(body) == "sleep\x00"+sleep+"\x00" {
			t.Errorf("%s is left", file)
		}
	}
}
