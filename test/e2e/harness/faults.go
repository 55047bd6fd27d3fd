// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
)

// Faults of a network are packet filters in the namespaces of machines. The machine on
// which the test runs is never cut off, so that a test can ask a server that nobody else
// reaches.

// IPAddress returns the address of a machine.
func (a *Agent) IPAddress() string {
	u, err := url.Parse(a.Addr)
	if err != nil {
		a.T.Fatal(err)
	}
	return u.Hostname()
}

// Deaf makes a machine receive nothing from others.
func (w *Network) Deaf(a *Agent, to ...*Agent) {
	w.T.Helper()
	for _, other := range to {
		w.filter(a, fmt.Sprintf("ip saddr %s drop", other.IPAddress()))
	}
}

// Split cuts the connection between a machine and others in both directions.
func (w *Network) Split(a *Agent, from ...*Agent) {
	w.T.Helper()
	w.Deaf(a, from...)
	for _, other := range from {
		w.Deaf(other, a)
	}
}

// Lossy makes a machine lose some of the packets from others.
func (w *Network) Lossy(a *Agent, percent int, from ...*Agent) {
	w.T.Helper()
	for _, other := range from {
		w.filter(a, fmt.Sprintf("ip saddr %s numgen random mod 100 < %d drop", other.IPAddress(), percent))
	}
}

// Heal removes the faults of machines. Delays end everywhere.
func (w *Network) Heal(all ...*Agent) {
	w.T.Helper()
	w.hasten() // before the filters go: without them the kernel loses track of redirected connections
	for _, a := range all {
		w.nft(a, "add table ip faults\ndelete table ip faults\n")
	}
}

func (w *Network) filter(a *Agent, rule string) {
	w.T.Helper()
	w.nft(a, "add table ip faults\nadd chain ip faults in { type filter hook input priority 0; }\nadd rule ip faults in "+rule+"\n")
}

func (w *Network) nft(a *Agent, script string) {
	w.T.Helper()
	cmd := exec.Command(a.Wrap[0], append(a.Wrap[1:len(a.Wrap):len(a.Wrap)], "nft", "-f", "-")...)
	cmd.Stdin = strings.NewReader(script)
	if out, err := cmd.CombinedOutput(); err != nil {
		w.T.Fatalf("nft: %v\n%s\n%s", err, script, out)
	}
}

// Signal sends a signal to the agent's process.
func (a *Agent) Signal(s syscall.Signal) {
	a.T.Helper()
	if err := a.Cmd.Process.Signal(s); err != nil {
		a.T.Fatal(err)
	}
}

// ServerOf returns the configuration of one of several servers that begin a cluster
// together and find each other at addresses. key encrypts their gossip.
func ServerOf(key string, addresses ...string) string {
	return Joining(key, fmt.Sprintf("bootstrap_expect = %d", len(addresses)), addresses...)
}

// Joining returns the configuration of a server that finds others at addresses. more is
// what else its block contains.
func Joining(key, more string, addresses ...string) string {
	return fmt.Sprintf(`leave_on_interrupt = true
server {
  enabled = true
  encrypt = %q
  server_join {
    retry_join     = ["%s"]
    retry_interval = "1s"
  }
  %s
}`, key, strings.Join(addresses, `", "`), more)
}
