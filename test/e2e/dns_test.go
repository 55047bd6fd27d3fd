// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netns"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// dial connects from a network namespace.
func dial(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		ns, err := netns.GetFromPath(namespace)
		if err == nil {
			defer ns.Close()
			err = netns.Set(ns)
		}
		if err != nil {
			done <- result{nil, err}
			return
		}
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		done <- result{c, err}
	}()
	r := <-done
	return r.conn, r.err
}

// resolver is Go's, as a program on the machine has it.
func (m *netMachine) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, m.namespace(), network, "127.0.0.1:53")
	}}
}

// hosts are the addresses of a name, in order.
func (m *netMachine) hosts(name string) []string {
	ctx, cancel := context.WithTimeout(m.Context(), 10*time.Second)
	defer cancel()
	out, _ := m.resolver().LookupHost(ctx, name)
	slices.Sort(out)
	return out
}

// asks is a task with its own files that asks for a name all the time, by busybox and, to get
// the page of the service, by the system's C library.
const asks = `job "front" {
  group "g" {
    network {
      mode = "bridge"
      %s
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/bash"
        args    = ["-c", "cp /etc/resolv.conf local/resolv; while :; do busybox nslookup db.service.drover > local/next 2>&1; (exec 3<>/dev/tcp/db.service.drover/8080 && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3) >> local/next 2>&1; mv local/next local/out; sleep 0.2; done"]
      }
      resources {
        cpu    = 10
        memory = 50
      }
    }
  }
}`

func TestServicesAreFoundByDNSFromTheMachineAndFromTasks(t *testing.T) {
	m := newNetMachine(t, `dns {
  enabled   = true
  recursors = ["192.0.2.1"]
}`)
	db := strings.Replace(web("db", "service", 2, "to = 8080"), `    task "t" {`, `    service {
      name         = "db"
      port         = "http"
      provider     = "nomad"
      address_mode = "alloc"
      tags         = ["main"]
    }
    task "t" {`, 1)
	m.Run(db)
	var addresses, ids []string
	for _, x := range m.Await("db", model.AllocClientStatusRunning, 2) {
		addresses, ids = append(addresses, m.look(x.ID).address), append(ids, x.ID)
	}
	slices.Sort(addresses)
	known := func(name string, want ...string) {
		t.Helper()
		m.Eventually(harness.Patience, fmt.Sprintf("%s is %q", name, want), func() bool { return slices.Equal(m.hosts(name), want) })
	}
	known("db.service.drover", addresses...)
	known("main.db.service.drover", addresses...)
	known("db.default.ns.service.drover", addresses...)
	known("db.other.ns.service.drover")
	if _, srv, err := m.resolver().LookupSRV(m.Context(), "db", "tcp", "service.drover"); err != nil || len(srv) != 2 || srv[0].Port != 8080 || m.hosts(srv[0].Target) == nil || !slices.Contains(addresses, m.hosts(srv[0].Target)[0]) {
		t.Errorf("SRV: %+v, %v", srv, err)
	}

	m.Run(fmt.Sprintf(asks, ""))
	front := m.Await("front", model.AllocClientStatusRunning, 1)[0].ID
	read := func(file string) string { b, _ := os.ReadFile(m.Path(front, "t/local/"+file)); return string(b) }
	finds := func(when string) {
		t.Helper()
		begin := time.Now()
		defer func() {
			if t.Failed() {
				t.Logf("%s: %q, resolv.conf %q", when, read("out"), read("resolv"))
			}
		}()
		m.Eventually(harness.Patience, when+" the task finds the service and its page", func() bool {
			info, err := os.Stat(m.Path(front, "t/local/out"))
			out := read("out")
			return err == nil && info.ModTime().After(begin) && strings.Contains(out, addresses[0]) && strings.Contains(out, addresses[1]) && slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(out, id) })
		})
	}
	finds("at first")
	if got := read("resolv"); !regexp.MustCompile(`(?m)^nameserver 10\.232\.7\.1$`).MatchString(got) || strings.Count(got, "nameserver") != 2 {
		t.Errorf("its resolv.conf is %q", got) // the gateways of both families
	}
	m.Kill()
	m.Start()
	finds("after a kill of the agent")

	m.Run(strings.Replace(db, "count = 2", "count = 1", 1))
	m.Eventually(harness.Patience, "one instance is left", func() bool { return len(m.hosts("db.service.drover")) == 1 })
	m.Must("job", "stop", "-detach", "db")
	known("db.service.drover")

	m.Must("job", "stop", "front")
	m.Run(strings.Replace(fmt.Sprintf(asks, "dns {\n servers = [\"192.0.2.7\"]\n }"), `"front"`, `"own"`, 1))
	front = m.Await("own", model.AllocClientStatusRunning, 1)[0].ID
	m.Eventually(harness.Patience, "the group's own resolver comes first", func() bool { return strings.Contains(read("resolv"), "192.0.2.7") })
	if strings.Contains(read("resolv"), "10.232.7.1") {
		t.Errorf("its resolv.conf is %q", read("resolv"))
	}
}
