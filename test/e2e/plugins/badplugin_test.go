// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugins_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

const steadyJob = `
job "steady" {
  group "g" {
    count = 3
    task "t" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo $$ > $NOMAD_TASK_DIR/pid; exec sleep 600"]
      }
      resources {
        cpu    = 20
        memory = 10
      }
    }
  }
}
`

// testplugins installs a plugin of the host's tests under each of the names. The
// name determines the plugin's behaviour.
func (a *agent) testplugins(names ...string) {
	a.T.Helper()
	binary := filepath.Join(a.Dir, "testplugin")
	harness.Build(a.T, binary, "core/pluginhost/testdata/testplugin")
	for _, name := range names {
		link := filepath.Join(a.Dir, "behaves", name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			a.T.Fatal(err)
		}
		if err := os.Symlink(binary, link); err != nil {
			a.T.Fatal(err)
		}
		a.Plugin(name, "exec "+link)
	}
}

// node returns the agent's node as the servers know it.
func (a *agent) node() *model.Node {
	a.T.Helper()
	nodes, _, err := a.Nodes(a.Context(), nil)
	if err != nil || len(nodes) != 1 {
		a.T.Fatalf("%d nodes, %v", len(nodes), err)
	}
	n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
	if err != nil {
		a.T.Fatal(err)
	}
	return n
}

// told reports whether a plugin event contains all of the words.
func told(n *model.Node, words ...string) bool {
	for _, e := range n.Events {
		all := e.Subsystem == "Plugin"
		for _, w := range words {
			all = all && strings.Contains(e.Message, w)
		}
		if all {
			return true
		}
	}
	return false
}

func TestBadPluginsAreSeenOnTheNodeAndHarmNoTask(t *testing.T) {
	a := newAgent(t)
	a.testplugins("flag", "floods", "garbage-handshake", "absent", "good")
	a.start()
	a.Run(steadyJob)
	before := a.PIDs(a.Await("steady", "running", 3))

	// One that keeps crashing. Events of other plugins may push its event out before its
	// state is reported.
	said := false
	a.Eventually(harness.Patience, "the crash loop is known", func() bool {
		n := a.node()
		p := n.Plugins["flag"]
		said = said || told(n, `"flag" keeps failing`, "not now")
		return said && p != nil && p.State == "crash loop" && strings.Contains(p.Error, "not now")
	})
	a.Eventually(harness.Patience, "the plugin whose daemon is absent is known as such", func() bool {
		p := a.node().Plugins["absent"]
		return p != nil && p.State == "undetected" && p.Error == ""
	})
	a.Eventually(harness.Patience, "what is no plugin is known as such", func() bool {
		p := a.node().Plugins["garbage-handshake"]
		return p != nil && strings.Contains(p.Error, "its handshake does not fit this agent")
	})
	if p := a.node().Plugins["driver-exec"]; p == nil || p.State != "running" || p.Restarts != 0 || !strings.HasPrefix(p.Digest, "sha256:") {
		t.Errorf("the good plugin: %+v", p)
	}
	if out := a.Must("node", "status", "-self", "-verbose"); !strings.Contains(out, "crash loop") || !strings.Contains(out, "Plugins\n") {
		t.Errorf("node status -verbose says\n%s", out)
	}

	// One that is killed. Its events may be pushed out, too.
	var pid int
	a.Eventually(10*time.Second, "the plugin's process", func() bool {
		for _, p := range a.Processes("behaves/good") {
			if harness.Parent(p) == a.Cmd.Process.Pid {
				pid = p
			}
		}
		return pid != 0
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	ended, returned := false, false
	a.Eventually(harness.Patience, "its end and its return are events", func() bool {
		n := a.node()
		ended = ended || told(n, `"good" failed`, "signal: killed", fmt.Sprintf("pid %d", pid))
		returned = returned || told(n, `"good" works again`)
		return ended && returned
	})

	after := a.PIDs(a.Await("steady", "running", 3))
	for id, p := range before {
		if after[id] != p {
			t.Errorf("the task of %s was process %d and is %d", id, p, after[id])
		}
	}
	for _, p := range append(a.Processes("__drover-supervise"), slices.Collect(maps.Values(after))...) {
		if group, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p)); err == nil && strings.Contains(string(group), "/drover-plugins/") {
			t.Errorf("process %d, which is no plugin, is in a plugin's cgroup:\n%s", p, group)
		}
	}
}
