// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package previous

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/pluginhost/plugincheck"
	"github.com/drover-project/drover/sdk/conformance"
)

// commit is the previous release: change it when a release is made.
const commit = "1088672"

const limit = 5 * time.Minute

// samples are one plugin per contract that the previous release has. Each side has them in its
// SDK. networks is that of a contract which it does not have: add it to the samples when
// commit has it.
var samples = []string{"driver/v1/drivertest/testdata/driver-shell", "device/v1/devicetest/testdata/device-file", "stats/v1/statstest/testdata/stats-file"}

const networks = "network/v1/networktest/testdata/network-file"

// checker is a program of the previous release: its host runs its checks with the plugin
// of its first argument, and it prints the outcome of each check.
const checker = `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/drover-project/drover/core/pluginhost/plugincheck"
)

func main() {
	config := map[string]any{}
	if err := json.Unmarshal([]byte(os.Args[2]), &config); err != nil {
		os.Exit(1)
	}
	report, err := plugincheck.Run(context.Background(), plugincheck.Options{Path: os.Args[1], Config: config, Skip: os.Args[3:]})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		os.Exit(1)
	}
}
`

// left are checks that are left out: the sample driver does not rotate its logs, and the
// others take seconds and say nothing about the wire.
var left = []string{"log-rotation", "stats-slow", "slow-reader", "start-race", "many-tasks"}

// config returns the agent config of a sample.
func config(t *testing.T, sample string) map[string]any {
	t.Helper()
	if filepath.Base(sample) == "driver-shell" {
		return map[string]any{}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "one"), []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string]any{"dir": dir}
}

func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

// checkout returns a directory with the files of the previous release. It skips the test
// where the history does not reach so far.
func checkout(t *testing.T) string {
	t.Helper()
	const root = "../.."
	if out, err := exec.CommandContext(t.Context(), "git", "-C", root, "cat-file", "-e", commit+"^{commit}").CombinedOutput(); err != nil {
		t.Skipf("the previous release %s is not in this clone's history; fetch it (git fetch --unshallow): %s", commit, bytes.TrimSpace(out))
	}
	dir := t.TempDir()
	tree := filepath.Join(t.TempDir(), "tree.tar")
	run(t, root, "git", "archive", "-o", tree, commit)
	run(t, dir, "tar", "-xf", tree)
	return dir
}

// build builds the samples of a checkout.
func build(t *testing.T, root string, samples ...string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for _, s := range samples {
		path := filepath.Join(dir, filepath.Base(s))
		run(t, root, "go", "build", "-trimpath", "-o", path, "./sdk/"+s)
		paths = append(paths, path)
	}
	return paths
}

// outcomes returns the results of a report by the kind of what was checked and the check.
func outcomes(r *plugincheck.Report) map[string]conformance.Result {
	out := map[string]conformance.Result{}
	for _, p := range r.Parts {
		for _, res := range p.Results {
			out[p.Kind+" "+res.Name] = res
		}
	}
	return out
}

// unknownKind reports whether the previous release's checks of an author's plugin object only
// to kinds of series that it does not know. Its host runs such a collector and shows the
// values as they are.
func unknownKind(problems []string) bool {
	for _, p := range problems {
		if !strings.HasPrefix(p, "the series ") || !strings.HasSuffix(p, " has no kind") {
			return false
		}
	}
	return len(problems) > 0
}

// previousHost returns the report of the previous release's host about a plugin.
func previousHost(t *testing.T, program, plugin string, config map[string]any) *plugincheck.Report {
	t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	report := &plugincheck.Report{}
	if err := json.Unmarshal([]byte(run(t, "", program, append([]string{plugin, string(body)}, left...)...)), report); err != nil {
		t.Fatal(err)
	}
	return report
}

// TestThePreviousReleaseAndThisOneRunEachOthersPlugins uses the rules that both releases
// have: a rule that is newer than a plugin need not be kept by it.
func TestThePreviousReleaseAndThisOneRunEachOthersPlugins(t *testing.T) {
	old := checkout(t)
	main := filepath.Join(old, "cmd", "previous-check")
	if err := os.MkdirAll(main, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(main, "main.go"), []byte(checker), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "check")
	run(t, old, "go", "build", "-trimpath", "-o", program, "./cmd/previous-check")
	oldPlugins, newPlugins := build(t, old, samples...), build(t, "../..", samples...)
	t.Run(filepath.Base(networks), func(t *testing.T) {
		t.Parallel()
		unknownContract(t, previousHost(t, program, build(t, "../..", networks)[0], map[string]any{}))
	})
	for i, s := range samples {
		t.Run(filepath.Base(s), func(t *testing.T) {
			t.Parallel()
			with := config(t, s)
			known := outcomes(previousHost(t, program, newPlugins[i], with))
			if len(known) < 8 {
				t.Errorf("the previous host made only %d checks", len(known))
			}
			for name, r := range known {
				if r.Outcome == conformance.Failed && !unknownKind(r.Problems) {
					t.Errorf("this plugin under the previous host: %s: %q", name, r.Problems)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			report, err := plugincheck.Run(ctx, plugincheck.Options{Path: oldPlugins[i], Config: with, Skip: left})
			if err != nil {
				t.Fatal(err)
			}
			for name, r := range outcomes(report) {
				if _, same := known[name]; same && r.Outcome == conformance.Failed {
					t.Errorf("the previous plugin under this host: %s: %q", name, r.Problems)
				}
			}
		})
	}
}

// unknownContract checks that the previous host refuses a plugin of a contract that it does
// not know with a word, and that this host has it pass all checks.
func unknownContract(t *testing.T, r *plugincheck.Report) {
	t.Helper()
	refused := ""
	for _, res := range outcomes(r) {
		if res.Outcome == conformance.Failed {
			refused += strings.Join(res.Problems, "\n")
		}
	}
	if r.Passed > 1 || !strings.Contains(refused, "network v1") {
		t.Errorf("the previous host says %q of a plugin of networks; %+v", refused, r)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	now, err := plugincheck.Run(ctx, plugincheck.Options{Path: r.Path})
	if err != nil {
		t.Fatal(err)
	}
	if !now.OK() || now.Passed < 8 {
		t.Errorf("this host: %+v", now)
	}
}
