// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// authority is the directory of an authority that `drover tls` has made, with a
// certificate for servers and one for nodes.
type authority struct {
	t   *testing.T
	dir string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t, t.TempDir()}
	a.drover("tls", "ca", "create")
	a.drover("tls", "cert", "create", "-server", "-additional-ipaddress", "10.0.0.1")
	a.drover("tls", "cert", "create", "-client")
	return a
}

func (a *authority) drover(args ...string) {
	a.t.Helper()
	cmd := exec.Command(filepath.Join(harness.Bin(), "drover"), args...)
	cmd.Dir = a.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		a.t.Fatalf("drover %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (a *authority) read(name string) string {
	a.t.Helper()
	b, err := os.ReadFile(filepath.Join(a.dir, name))
	if err != nil {
		a.t.Fatal(err)
	}
	return string(b)
}

func (a *authority) ca() string { return a.read("nomad-agent-ca.pem") }

// certify puts the certificate of a role into a machine's files, the certificate first.
func (a *authority) certify(m *agent, role string) {
	a.t.Helper()
	m.Write("cert.pem", 0o600, a.read("global-"+role+"-nomad.pem"))
	m.Write("key.pem", 0o600, a.read("global-"+role+"-nomad-key.pem"))
}

// secured is the tls block of docs/cluster.md.
func secured(m *agent) string {
	return fmt.Sprintf("tls {\n  rpc = true\n  ca_file = %q\n  cert_file = %q\n  key_file = %q\n  verify_server_hostname = true\n}\n",
		filepath.Join(m.Dir, "ca.pem"), filepath.Join(m.Dir, "cert.pem"), filepath.Join(m.Dir, "key.pem"))
}

// The certificates are those of docs/cluster.md, and the steps those of its "Another
// authority".
func TestTheAuthorityOfALiveClusterIsReplaced(t *testing.T) {
	before, after := newAuthority(t), newAuthority(t)
	s := newServersWith(t, func(m *agent) {
		m.Write("ca.pem", 0o600, before.ca())
		before.certify(m, "server")
		m.Configure(secured(m))
	})
	leader := s.leader(s.all...)
	node := &agent{s.network.Machine("node", "")}
	node.Write("ca.pem", 0o600, before.ca())
	before.certify(node, "client")
	node.Configure(harness.NodeOf(s.all[0].Agent) + secured(node))
	node.Launch()
	node.Eventually(harness.Patience, "the node is ready", func() bool {
		nodes, _, err := leader.Nodes(leader.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Status == model.NodeStatusReady
	})
	leader.Run(harness.Shell("web", "service", 1, "", "exec sleep 1000"))
	m := &machines{t: t, server: leader, nodes: map[string]*agent{"node": node}}
	pids := m.pids(leader.Await("web", "running", 1))
	all := append([]*agent{node}, s.all...)

	// Somebody writes all the time, through a server that is not restarted.
	var stop atomic.Bool
	var writer sync.WaitGroup
	var written []string
	writer.Go(func() {
		for i := 0; !stop.Load(); i++ {
			name := fmt.Sprintf("n%d", i)
			// On a loaded machine the leader may change, and a write must then be repeated.
			var err error
			for until := time.Now().Add(harness.Patience); time.Now().Before(until); {
				if err = leader.ApplyNamespace(leader.Context(), &model.Namespace{Name: name}); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("write %s: %v", name, err)
				return
			}
			written = append(written, name)
		}
	})
	defer writer.Wait()
	defer stop.Store(true)
	// reconnect makes a machine connect anew with the files that it has now: the raft
	// connections and the session of a server that was restarted are new.
	reconnect := func(a *agent) {
		t.Helper()
		if a == leader {
			return // its connections to and from the others are made by them
		}
		if err := a.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		<-a.Done
		a.Launch()
		a.Eventually(harness.Patience, "a machine is back", func() bool {
			if !a.Alive() {
				log := a.Log()
				t.Fatalf("a machine has ended at its start: %v; its log ends:\n%s", a.Cmd.ProcessState, log[max(0, len(log)-2000):])
			}
			if _, err := a.Leader(a.Context()); err != nil { // what the others say may be from before the restart
				return false
			}
			servers, err := leader.AutopilotHealth(leader.Context())
			nodes, _, nodesErr := leader.Nodes(leader.Context(), nil)
			return err == nil && servers.Healthy && len(servers.Servers) == 3 && nodesErr == nil && len(nodes) == 1 && nodes[0].Status == model.NodeStatusReady
		})
	}
	for _, a := range all {
		a.Write("ca.pem", 0o600, before.ca()+after.ca())
	}
	for _, a := range all {
		role := "server"
		if a == node {
			role = "client"
		}
		after.certify(a, role)
		reconnect(a)
	}
	for _, a := range all {
		a.Write("ca.pem", 0o600, after.ca())
	}
	for _, a := range all {
		reconnect(a)
	}
	stop.Store(true)
	writer.Wait()
	if len(written) == 0 {
		t.Error("nobody has written")
	}
	s.same(written...)
	m.unharmed("web", pids)
	// The old authority is worth nothing any more.
	late := &agent{s.network.Machine("late", "")}
	late.Write("ca.pem", 0o600, after.ca())
	before.certify(late, "client")
	late.Configure(harness.NodeOf(s.all[0].Agent) + secured(late))
	late.Launch()
	late.Eventually(harness.Patience, "a node of the old authority is refused", func() bool {
		return strings.Contains(late.Log(), "no session with the servers; trying again")
	})
	if nodes, _, err := leader.Nodes(leader.Context(), nil); err != nil || len(nodes) != 1 {
		t.Errorf("%d nodes, %v", len(nodes), err)
	}
}
