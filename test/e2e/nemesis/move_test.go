// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nemesis_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// serverOf returns the server to which a node is connected, nil while that is none or more
// than one.
func (c *cluster) serverOf(node *harness.Agent) *harness.Agent {
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp", node.Cmd.Process.Pid))
	if err != nil {
		return nil
	}
	var found *harness.Agent
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[3] != "01" { // established
			continue
		}
		for _, s := range c.servers {
			if f[2] == kernelAddress(s.RPCAddress()) {
				if found != nil {
					return nil
				}
				found = s
			}
		}
	}
	return found
}

// kernelAddress returns an address in the form of /proc/net/tcp.
func kernelAddress(address string) string {
	a, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return ""
	}
	var ip [4]byte
	binary.NativeEndian.PutUint32(ip[:], binary.BigEndian.Uint32(a.IP.To4()))
	return fmt.Sprintf("%s:%04X", strings.ToUpper(hex.EncodeToString(ip[:])), a.Port)
}

// reaches checks that agents answer for the alloc of every node, wherever the session of the
// node is.
func (c *cluster) reaches(job string, n int, all ...*harness.Agent) {
	c.t.Helper()
	for _, x := range all[0].Await(job, model.AllocClientStatusRunning, n) {
		for _, asked := range all {
			asked.Eventually(harness.Patience, "the logs of a task are read through any agent", func() bool {
				out, code := asked.CLI("alloc", "logs", x.ID, "t")
				return code == 0 && strings.Contains(out, "I am "+x.ID)
			})
			if out, code := asked.CLI("alloc", "fs", x.ID, "t/local/pid"); code != 0 || strings.TrimSpace(out) == "" {
				c.t.Errorf("fs: exit code %d, %q", code, out)
			}
			if out, code := asked.CLI("alloc", "exec", "-task", "t", x.ID, "/bin/sh", "-c", "echo $NOMAD_ALLOC_ID; exit 4"); code != 4 || strings.TrimSpace(out) != x.ID {
				c.t.Errorf("exec: exit code %d, %s", code, out)
			}
		}
	}
}

func TestUnderTLSNodesMoveBetweenServersWithTheirTasksAndEveryAgentReachesThem(t *testing.T) {
	ca := testkit.NewAuthority(t)
	c := newCluster(t, 2, func(name string) string {
		if strings.HasPrefix(name, "s") {
			return harness.Secured(ca.Machine(name, "server.global.nomad", true))
		}
		return harness.Secured(ca.Machine(name, "client.global.nomad", true))
	})
	c.attached()
	jobs := map[string]int{"web": 2}
	c.servers[0].Run(harness.Shell("web", "service", 2, harness.Quick+"    constraint {\n distinct_hosts = true\n }\n", "echo I am $NOMAD_ALLOC_ID; "+untouched))
	before := c.tasks(jobs)
	c.reaches("web", 2, append(slices.Clone(c.servers), c.nodes...)...)
	for range 2 {
		var held *harness.Agent
		c.nodes[0].Eventually(harness.Patience, "the node is connected to one server", func() bool {
			held = c.serverOf(c.nodes[0])
			return held != nil
		})
		held.Kill()
		for _, n := range c.nodes {
			n.Eventually(harness.Patience, "the node is connected to another server", func() bool {
				now := c.serverOf(n)
				return now != nil && now != held
			})
		}
		c.leader(without(c.servers, held)...)
		c.reaches("web", 2, without(c.servers, held)...)
		held.Launch()
		c.working()
		c.attached()
		if after := c.tasks(jobs); !maps.Equal(before, after) {
			t.Fatalf("tasks were touched: they are %v, and were %v", after, before)
		}
	}
	c.equal()
}
