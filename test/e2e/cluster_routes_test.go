// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// everyRoute sends the same requests to the server, the node of an alloc, and
// another node.
func (m *machines) everyRoute(t *testing.T, x *model.AllocListStub) {
	own := m.nodes[x.NodeName]
	other := m.nodes["a"]
	if own == other {
		other = m.nodes["b"]
	}
	node, alloc := "node_id="+x.NodeID, x.ID
	get := func(a *agent, path string) string {
		code, body := a.HTTPGet(path)
		return fmt.Sprintf("%d %s", code, body)
	}
	for path, says := range map[string]string{ // routes whose answer does not change
		"/v1/client/fs/ls/" + alloc + "?path=t/local":                          `200 [{"Name":"pid"`,
		"/v1/client/fs/stat/" + alloc + "?path=t/local/pid":                    `200 {"Name":"pid"`,
		"/v1/client/fs/cat/" + alloc + "?path=t/local/pid":                     "200 ",
		"/v1/client/fs/readat/" + alloc + "?path=t/local/pid&offset=0&limit=1": "200 ",
		"/v1/client/fs/stream/" + alloc + "?path=t/local/pid&follow=false":     `200 {"Offset":`,
		"/v1/client/fs/logs/" + alloc + "?task=t&type=stdout&plain=true":       "200 I am " + alloc,
		"/v1/client/fs/ls/" + alloc + "?path=none":                             "500 ",
		"/v1/client/fs/ls/" + alloc + "?path=../../../../etc":                  "500 Path escapes",
		"/v1/client/fs/cat/00000000-0000-0000-0000-000000000000?path=/":        "404 ",
		"/v1/client/allocation/" + alloc + "/checks":                           "200 {}",
		"/v1/client/metadata?" + node:                                          `200 {"Meta":{}`,
		"/v1/agent/plugins?" + node:                                            `200 [{"Name":"driver-exec"`,
		"/v1/agent/plugin/driver-exec?" + node:                                 `200 {"Name":"driver-exec"`,
		"/v1/agent/plugin/none?" + node:                                        "404 ",
		"/v1/agent/pprof/cmdline?" + node:                                      "200 " + filepath.Join(harness.Bin(), "drover"),
		"/v1/agent/pprof/none?" + node:                                         "404 ",
		"/v1/agent/monitor/export?on_disk=true&" + node:                        "500 this agent writes no log file",
		"/v1/agent/monitor?log_level=loud&" + node:                             "400 Unknown log level",
		"/v1/agent/monitor/export?on_disk=true&" + node + "&server_id=leader":  "400 Cannot target",
		"/v1/client/stats?node_id=00000000-0000-0000-0000-000000000000":        "404 ",
		"/v1/agent/monitor?node_id=00000000-0000-0000-0000-000000000000":       "404 ",
		"/v1/agent/monitor/export?on_disk=true&server_id=leader":               "500 this agent writes no log file",
	} {
		want := get(own, path)
		if !strings.HasPrefix(want, says) {
			t.Errorf("%s: its node says %.200s, want %s", path, want, says)
		}
		for name, a := range map[string]*agent{"the server": m.server, "another node": other} {
			if got := get(a, path); got != want {
				t.Errorf("%s: %s says %.300s, its node %.300s", path, name, got, want)
			}
		}
	}
	m.liveRoutes(t, x, map[string]*agent{"its node": own, "the server": m.server, "another node": other})
}

// liveRoutes are routes whose answer changes with each request, or that change
// something.
func (m *machines) liveRoutes(t *testing.T, x *model.AllocListStub, asked map[string]*agent) {
	node := "node_id=" + x.NodeID
	for name, a := range asked {
		for path, says := range map[string]string{
			"/v1/client/stats?" + node:                  `"Memory":{`,
			"/v1/client/allocation/" + x.ID + "/stats":  `"ResourceUsage":{`,
			"/v1/agent/host?" + node:                    `{"AgentID":"` + x.NodeID + `"`,
			"/v1/agent/pprof/goroutine?debug=1&" + node: "goroutine profile:",
			"/v1/client/gc?" + node:                     "",
			"/v1/agent/health?type=client":              "",
		} {
			m.server.Eventually(15*time.Second, path+" answered by "+name, func() bool { // metrics appear only while they are requested
				code, body := a.HTTPGet(path)
				return (code == 200 || a == m.server && strings.HasPrefix(path, "/v1/agent/health")) && strings.Contains(body, says)
			})
		}
		if out := a.Must("node", "meta", "apply", "-node-id", x.NodeID, "asked="+strings.ReplaceAll(name, " ", "-")); !strings.Contains(a.Must("node", "meta", "read", "-node-id", x.NodeID), strings.ReplaceAll(name, " ", "-")) {
			t.Errorf("metadata by %s: %s", name, out)
		}
		if out := a.Must("node", "status", "-stats", "-verbose", x.NodeID); !strings.Contains(out, "driver-exec") || strings.Contains(out, "retrieve stats") {
			t.Errorf("node status by %s: %s", name, out)
		}
		if out := a.Must("alloc", "status", "-stats", x.ID); strings.Contains(out, "retrieve stats") {
			t.Errorf("alloc status by %s: %s", name, out)
		}
		m.monitors(t, name, a, x)
	}
	a := asked["another node"]
	a.Must("alloc", "restart", x.ID, "t")
	m.server.Eventually(15*time.Second, "the task was restarted", func() bool {
		y, _, err := a.Allocation(a.Context(), x.ID, nil)
		return err == nil && y.TaskStates["t"].Restarts == 1 && y.TaskStates["t"].State == "running"
	})
	a.Must("node", "meta", "apply", "-node-id", x.NodeID, "-unset", "asked")
}

// monitors follows the log of the alloc's node.
func (m *machines) monitors(t *testing.T, name string, a *agent, x *model.AllocListStub) {
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", a.Addr+"/v1/agent/monitor?plain=true&log_level=debug&node_id="+x.NodeID, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if code, _ := m.nodes[x.NodeName].HTTPGet("/v1/client/fs/ls/" + x.ID + "?path=none"); code != 500 {
		t.Errorf("a file that is not there: %d", code)
	}
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "request failed") && strings.Contains(lines.Text(), x.ID) {
			return
		}
	}
	t.Errorf("the log of a node by %s does not show its request: %v", name, lines.Err())
}
