// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/cli"
	"github.com/posener/complete"

	"github.com/drover-project/drover/cmd/drover/command"
)

const twoPlugins = `[{"Name":"device-gpu","Version":"2","State":"crash loop","Restarts":7,"Devices":["gpu"],"LastError":"no library"},
{"Name":"driver-exec","Version":"1.0.0","State":"running","PID":41,"Tasks":3,"Drivers":["exec","raw_exec"]}]`

const onePlugin = `{"Name":"driver-exec","Version":"1.0.0","State":"running","PID":41,"Path":"/p/driver-exec","Digest":"sha256:aa","Previous":"sha256:bb",
"Tasks":3,"Drivers":["exec","raw_exec"],"Work":{"Action":"upgrade","Step":"recovering","Done":2,"Total":3},"UpgradeError":"does not start","Bad":[{"Digest":"sha256:cc","Why":"exit code 1"}]}`

func TestPluginsOfANodeAreShown(t *testing.T) {
	f := newFake(t, map[string]string{
		"GET /v1/agent/plugins": twoPlugins, "GET /v1/agent/plugin/driver-exec": onePlugin, "GET /v1/plugins": "[]",
		"GET /v1/nodes": `[{"ID":"` + nodeID + `"}]`, "GET /v1/plugin/csi/x": "404!plugin not found",
		"GET /v1/agent/plugin/disk": "404!no plugin \"disk\" on this node", "GET /v1/plugins?prefix=disk&type=csi": `[{"ID":"disk"}]`,
		"GET /v1/plugin/csi/disk": `{"ID":"disk","Provider":"disk.example.org"}`, "GET /v1/agent/plugin/none": "404!no plugin \"none\" on this node",
	})
	for line, want := range map[string]string{
		"plugin list":                           "device-gpu   2        crash loop  0      7         gpu\ndriver-exec  1.0.0    running     3      0         exec, raw_exec\n\ndevice-gpu: no library",
		"plugin status":                         "crash loop",
		"plugin status driver-exec":             "Last change = upgrade, recovering tasks in the new version: 2 of 3",
		"plugin status -t {{.PID}}":             "",
		"plugin status -t {{.PID}} driver-exec": "41",
		"plugin status -type csi":               "Container Storage Interface\nNo CSI plugins",
		"plugin status disk":                    "Provider             = disk.example.org",
	} {
		r := f.at(t, nil, strings.Fields(line)...)
		if want == "" {
			if r.code != 1 {
				t.Errorf("%s: exit code %d", line, r.code)
			}
			continue
		}
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit code %d, %s\n%s", line, r.code, r.err, r.out)
		}
	}
	if r := f.at(t, nil, "plugin", "status", "-node", "aaaa", "driver-exec"); r.code != 0 || !strings.Contains(f.asked[len(f.asked)-1], "node_id="+nodeID) {
		t.Errorf("exit code %d: %s; %v", r.code, r.err, f.asked)
	}
	if r := f.at(t, nil, "plugin", "status", "-type", "csi", "x"); r.code != 1 || !strings.Contains(r.err, "no CSI driver with prefix or id") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if r := f.at(t, nil, "plugin", "status", "none"); r.code != 1 || !strings.Contains(r.err, `no plugin "none" on this node`) {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if r := f.at(t, nil, "plugin", "status", "-type", "exec"); r.code != 1 || !strings.Contains(r.err, "the only type is csi") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func TestTheStatusOfAPluginShowsWhatItMayDo(t *testing.T) {
	access := func(json string) string { return `{"Name":"stats-x","State":"running","Access":` + json + `}` }
	f := newFake(t, map[string]string{
		"GET /v1/agent/plugin/confined": access(`{"Profile":"stats","UID":60600,"NoNewPrivileges":true,"Filesystem":"restricted","HiddenPaths":["/data"],"ReadPaths":["/data/x"],
"WritePaths":["/srv"],"Syscalls":"restricted","MemoryMB":512,"Pids":64,"OpenFiles":4096,"StateMB":256,"TLS":true,"Socket":"/s/1","Folder":"/f","Lacking":["no Landlock"]}`),
		"GET /v1/agent/plugin/free": access(`{"Profile":"driver","User":"root","Groups":["video"],"Capabilities":["all"],"Filesystem":"all","Syscalls":"all","Network":true,"Folder":"/f"}`),
	})
	for name, want := range map[string][]string{
		"confined": {
			"What it may do (profile stats)", "User = 60600, which no other plugin has", "Groups = none", "Capabilities = none", "New privileges = none",
			"Files = reads all that its user may but /data; also /data/x; writes to its folder, /srv", "Network = none", "System calls = restricted",
			"Memory = at most 512 MiB", "Processes = at most 64 with threads", "Open files = at most 4096 each", "Folder = /f, at most 256 MiB",
			"Socket = /s/1, mutual TLS", "Not enforced: no Landlock",
		},
		"free": {
			"What it may do (profile driver)", "User = root (0)", "Groups = video", "Capabilities = all", "New privileges = possible", "Files = all that its user may",
			"Network = yes", "System calls = all", "Memory = no limit", "Socket = a port of this machine, no TLS",
		},
	} {
		r := f.at(t, nil, "plugin", "status", name)
		said := regexp.MustCompile(` +`).ReplaceAllString(r.out, " ")
		for _, line := range want {
			if !strings.Contains(said, line+"\n") {
				t.Errorf("plugin status %s, exit code %d, has no line %q:\n%s%s", name, r.code, line, r.out, r.err)
			}
		}
	}
}

// TestTheStatusOfADevicePluginShowsItsDevicesAndWhoHoldsThem asks without a node, as one does on
// the machine itself.
func TestTheStatusOfADevicePluginShowsItsDevicesAndWhoHoldsThem(t *testing.T) {
	const devices = `{"Name":"device-gpu","State":"running","Devices":["gpu"],"DeviceGroups":[{"Vendor":"acme","Type":"gpu","Name":"x","Instances":[
{"ID":"g0","Healthy":true},{"ID":"g1","HealthDescription":"too hot"}]}]}`
	f := newFake(t, map[string]string{
		"GET /v1/agent/plugin/device-gpu": devices, "GET /v1/agent/self": `{"stats":{"client":{"node_id":"` + nodeID + `"}}}`,
		"GET /v1/node/" + nodeID + "/allocations": `[{"ID":"a1000000-0000-0000-0000-000000000000","ClientStatus":"running","AllocatedResources":{"Tasks":{"web":{"Devices":[
{"Vendor":"acme","Type":"gpu","Name":"x","DeviceIDs":["g0"]}]}}}}]`,
	})
	r := f.at(t, nil, "plugin", "status", "device-gpu")
	rows := strings.Join(strings.Fields(r.out), " ")
	for _, want := range []string{"acme/gpu/x[g0] healthy <none> alloc a1000000, task web", "acme/gpu/x[g1] unhealthy too hot"} {
		if r.code != 0 || !strings.Contains(rows, want) {
			t.Errorf("exit code %d, %s, without %q:\n%s", r.code, r.err, want, r.out)
		}
	}
}

func TestTheStatusOfAPluginSaysEachThingOnceAndWhen(t *testing.T) {
	const failed = `{"Name":"driver-x","Version":"1","State":"running","Path":"/p/driver-x","Digest":"sha256:aa","UpgradeError":"it does not start: no shell",
"Work":{"Action":"upgrade","Started":"2026-05-01T12:00:00Z","Ended":"2026-05-01T12:00:05Z","Error":"driver-x: it does not start: no shell"},
"Bad":[{"Digest":"sha256:cc","Why":"exit code 1","At":"2026-04-30T09:08:07Z"}]}`
	const fresh = `{"Name":"driver-x","State":"starting","Work":{"Action":"install","Step":"%s","Started":"2026-05-01T12:00:00Z"}}`
	r := newFake(t, map[string]string{"GET /v1/agent/plugin/driver-x": failed}).at(t, nil, "plugin", "status", "driver-x")
	if r.code != 0 || strings.Count(r.out, "it does not start: no shell") != 1 || !strings.Contains(r.out, "upgrade at 2026-05-01T12:00:05Z failed, see below") {
		t.Errorf("an error that is told in two places: exit code %d\n%s", r.code, r.out)
	}
	if !strings.Contains(r.out, "2026-04-30T09:08:07Z") {
		t.Errorf("a version that failed has no date:\n%s", r.out)
	}
	for step, want := range map[string]string{"starting": "starting the plugin for the first time", "recovering": "recovering tasks", "probing": "asking the plugin for its fingerprints", "switching": "putting the plugin into place"} {
		r := newFake(t, map[string]string{"GET /v1/agent/plugin/driver-x": fmt.Sprintf(fresh, step)}).at(t, nil, "plugin", "status", "driver-x")
		if r.code != 0 || !strings.Contains(r.out, "install, "+want) || strings.Contains(r.out, "beside") || strings.Contains(r.out, "new version") {
			t.Errorf("a first install in the step %s: exit code %d\n%s", step, r.code, r.out)
		}
	}
}

func TestPluginsOfANodeAreChanged(t *testing.T) {
	f := newFake(t, map[string]string{
		"PUT /v1/agent/plugin/driver-x/install": onePlugin, "PUT /v1/agent/plugin/x/upgrade": onePlugin, "PUT /v1/agent/plugin/x/rollback": onePlugin,
		"PUT /v1/agent/plugin/x/disable": onePlugin, "DELETE /v1/agent/plugin/x": "", "PUT /v1/agent/plugin/x/reload": "409!does not start",
	})
	file := filepath.Join(t.TempDir(), "driver-x")
	if err := os.WriteFile(file, []byte("body"), 0o600); err != nil {
		t.Fatal(err)
	}
	const digest = "sha256%3A230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5"
	for line, want := range map[string]string{
		"plugin install " + file:                                   "PUT /v1/agent/plugin/driver-x/install?digest=" + digest + " body",
		"plugin upgrade -version 2 x " + file:                      "PUT /v1/agent/plugin/x/upgrade?digest=" + digest + "&version=2 body",
		"plugin upgrade -digest sha256:aa x https://a/b":           `PUT /v1/agent/plugin/x/upgrade {"Revision":0,"Version":"","Digest":"sha256:aa","Source":"https://a/b","Config":null}`,
		"plugin upgrade -on-node x " + file:                        `"Source":"` + file + `"`,
		"plugin install https://example.com/dist/driver-x?token=s": `"Source":"https://example.com/dist/driver-x?token=s"`,
		"plugin rollback x":                                        "PUT /v1/agent/plugin/x/rollback",
		"plugin disable x":                                         "PUT /v1/agent/plugin/x/disable",
		"plugin remove -force x":                                   "DELETE /v1/agent/plugin/x?force=true",
	} {
		r := f.at(t, nil, strings.Fields(line)...)
		sent := f.writes()
		if r.code != 0 || !strings.Contains(sent[len(sent)-1], want) {
			t.Errorf("%s: exit code %d, %s; sent %s", line, r.code, r.err, sent[len(sent)-1])
		}
	}
	if r := f.at(t, nil, "plugin", "install", "-digest", "sha256:00", file); r.code != 1 || !strings.Contains(r.err, "has the digest sha256:230d") {
		t.Errorf("another digest: exit code %d: %s", r.code, r.err)
	}
	if r := f.at(t, nil, "plugin", "reload", "x"); r.code != 1 || !strings.Contains(r.err, "does not start") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}

func TestAnInstallShowsHowFarItHasComeAndNothingButJSONForPrograms(t *testing.T) {
	slow := make(chan struct{})
	var once sync.Once
	var looks atomic.Int32
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			if r.URL.Query().Get("detach") == "" && r.ContentLength != 4 {
				http.Error(w, "the file's length is not said", http.StatusBadRequest)
				return
			}
			select {
			case <-slow:
			case <-r.Context().Done():
				return
			}
			_, _ = io.WriteString(w, onePlugin)
		default:
			n := looks.Add(1)
			if n == 4 {
				once.Do(func() { close(slow) })
			}
			_, _ = fmt.Fprintf(w, `{"Name":"driver-x","Work":{"Action":"upgrade","Step":"recovering","Done":%d,"Total":200}}`, n)
		}
	}))
	defer agent.Close()
	f := &fake{Server: agent}
	file := filepath.Join(t.TempDir(), "driver-x")
	if err := os.WriteFile(file, []byte("body"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := f.at(t, nil, "plugin", "install", file)
	if r.code != 0 || !strings.Contains(r.out, ": recovering tasks in the new version: 2 of 200\n") || strings.Count(r.out, "recovering") != 1 {
		t.Errorf("exit code %d: %s\n%s", r.code, r.err, r.out)
	}
	r = f.at(t, nil, "plugin", "install", "-json", file)
	if r.code != 0 || !json.Valid([]byte(r.out)) || r.err != "" {
		t.Errorf("as JSON: exit code %d: %s\n%s", r.code, r.err, r.out)
	}
	r = f.at(t, nil, "plugin", "upgrade", "-detach", "driver-x", "https://example.com/x")
	if r.code != 0 || !strings.Contains(r.out, `Plugin "driver-x": the upgrade goes on; for the outcome see: drover plugin status driver-x`) {
		t.Errorf("detached: exit code %d: %s\n%s", r.code, r.err, r.out)
	}
}

func TestAnInterruptedInstallSaysWhatBecomesOfIt(t *testing.T) {
	for work, want := range map[string]string{
		`{"Action":"upgrade","Step":"switching","Began":"2026-11-21T12:00:01Z"}`:                                                      "the node continues without this command (switching over)",
		`{"Action":"upgrade","Step":"fetching","Began":"2026-11-21T12:00:01Z","Ended":"2026-11-21T12:00:02Z","Error":"it broke off"}`: "nothing was changed\n",
		`{"Action":"upgrade","Step":"switching","Began":"2026-11-21T12:00:01Z","Ended":"2026-11-21T12:00:02Z"}`:                       "the change had already completed",
		`{"Action":"rollback","Step":"switching","Began":"2026-11-21T11:00:00Z","Ended":"2026-11-21T11:00:01Z"}`:                      "nothing was changed\n", // the previous change
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		var asked atomic.Bool
		agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut {
				_, _ = io.Copy(io.Discard, r.Body) // so that the test notices when the request ends
				interrupt()
				<-r.Context().Done()
				return
			}
			now := work
			if asked.CompareAndSwap(false, true) { // the first query comes before the change is sent
				now = `{"Action":"rollback","Step":"switching","Began":"2026-11-21T11:00:00Z","Ended":"2026-11-21T11:00:01Z"}`
			}
			_, _ = fmt.Fprintf(w, `{"Name":"driver-x","Work":%s}`, now)
		}))
		f := &fake{Server: agent}
		r := f.at(t, func(stdio *command.IO) { stdio.Context = ctx }, "plugin", "install", "https://example.com/driver-x")
		if r.code != 130 || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit code %d, %q, want %q", work, r.code, r.err, want)
		}
		agent.Close()
		interrupt()
	}
}

func TestAnUpgradeIsCompletedWithPluginsAndFiles(t *testing.T) {
	f := newFake(t, map[string]string{"GET /v1/agent/plugins": twoPlugins})
	stdio := command.IO{Env: map[string]string{"DROVER_ADDR": f.URL}, Context: t.Context()}
	c, err := command.All(stdio)["plugin upgrade"]()
	if err != nil {
		t.Fatal(err)
	}
	completed, ok := c.(cli.CommandAutocomplete)
	if !ok {
		t.Fatal("the command cannot be completed")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "driver-exec-2"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	got := completed.AutocompleteArgs().Predict(complete.Args{All: []string{"driver-e"}, Last: "driver-e"})
	for _, want := range []string{"driver-exec", "driver-exec-2"} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.TrimPrefix(s, "./") == want }) {
			t.Errorf("%s is not proposed: %q", want, got)
		}
	}
	for flag := range map[string]bool{"-detach": true, "-digest": true, "-config": true, "-version": true, "-on-node": true, "-node": true} {
		if _, ok := completed.AutocompleteFlags()[flag]; !ok {
			t.Errorf("the flag %s is not proposed", flag)
		}
	}
}

func TestTheLanguageOfANewPluginIsCompletedAndAnUnknownOneRefusedByName(t *testing.T) {
	c, err := command.All(command.IO{Env: map[string]string{}, Context: t.Context()})["plugin new"]()
	if err != nil {
		t.Fatal(err)
	}
	completed, ok := c.(cli.CommandAutocomplete)
	if !ok {
		t.Fatal("the command cannot be completed")
	}
	if got := completed.AutocompleteFlags()["-lang"].Predict(complete.Args{}); !slices.Equal(slices.Sorted(slices.Values(got)), []string{"go", "python"}) {
		t.Errorf("-lang is completed with %q", got)
	}
	dir := t.TempDir()
	if r := newFake(t, nil).at(t, nil, "plugin", "new", "-lang", "rust", "-dir", dir, "mine"); r.code != 1 || !strings.Contains(r.err, `unknown language "rust"; the known ones are go, python`) {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
	if r := newFake(t, nil).at(t, nil, "plugin", "new", "-lang", "python", "-dir", dir, "mine"); r.code != 0 || !strings.Contains(r.out, "driver/service.py") || !strings.Contains(r.out, "make check") || strings.Contains(r.out, "go mod tidy") {
		t.Errorf("exit code %d: %s%s", r.code, r.out, r.err)
	}
}
