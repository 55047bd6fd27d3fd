// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

// namespaceOf returns the network namespace of a thread.
func namespaceOf(t *testing.T, tid string) string {
	t.Helper()
	ns, err := os.Readlink("/proc/self/task/" + tid + "/ns/net")
	if err != nil {
		return "" // the thread has ended
	}
	return ns
}

// foreign makes a network namespace with a listener on its loopback, and returns the
// namespace's path, the listener's address and the thread that stays in it.
func foreign(t *testing.T) (path, address, tid string) {
	t.Helper()
	type made struct {
		l   net.Listener
		tid int
		err error
	}
	out, done := make(chan made), make(chan struct{})
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			out <- made{err: err}
			return
		}
		up := func() error {
			s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(s)
			lo, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			lo.SetUint16(unix.IFF_UP)
			return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
		}
		err := up()
		var l net.Listener
		if err == nil {
			l, err = net.Listen("tcp", "127.0.0.1:0")
		}
		out <- made{l, unix.Gettid(), err}
		<-done
	}()
	m := <-out
	if m.err == unix.EPERM {
		t.Skip("only root makes network namespaces")
	}
	if m.err != nil {
		t.Fatal(m.err)
	}
	t.Cleanup(func() { m.l.Close(); close(done) })
	go func() {
		for {
			c, err := m.l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	tid = fmt.Sprint(m.tid)
	return "/proc/" + fmt.Sprint(os.Getpid()) + "/task/" + tid + "/ns/net", m.l.Addr().String(), tid
}

func TestAnAddressInsideANamespaceIsReachedFromThereAndNoThreadStays(t *testing.T) {
	home := namespaceOf(t, fmt.Sprint(os.Getpid()))
	path, address, inside := foreign(t)
	check := &model.ServiceCheck{Type: "tcp", Timeout: time.Minute}
	if o := ask(t, checks.Target{Check: check, Address: address}); o.Status == checks.Success {
		t.Fatal("the address is reached from the agent's own namespace")
	}
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if o := ask(t, checks.Target{Check: check, Address: address, Netns: path}); o.Status != checks.Success {
				t.Errorf("from inside: %+v", o)
			}
		})
	}
	all.Wait()
	closed, _, _ := strings.Cut(address, ":")
	if o := ask(t, checks.Target{Check: check, Address: closed + ":1", Netns: path}); o.Status != checks.Failure || !strings.Contains(o.Output, "connection refused") {
		t.Errorf("nobody listens there: %+v", o)
	}
	if o := ask(t, checks.Target{Check: check, Address: address, Netns: filepath.Join(t.TempDir(), "gone")}); o.Status != checks.Failure || !strings.Contains(o.Output, "network is gone") {
		t.Errorf("the namespace is gone: %+v", o)
	}
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, thread := range threads {
		if ns := namespaceOf(t, thread.Name()); ns != "" && ns != home && thread.Name() != inside {
			t.Errorf("thread %s stayed in %s", thread.Name(), ns)
		}
	}
}

func TestACheckInsideANamespaceEndsAtItsTimeout(t *testing.T) {
	path, _, _ := foreign(t)
	check := &model.ServiceCheck{Type: "http", Path: "/", Timeout: 100 * time.Millisecond}
	o := ask(t, checks.Target{Check: check, Address: "192.0.2.1:80", Netns: path}) // no route leads there
	if o.Status != checks.Failure || !strings.Contains(o.Output, "network is unreachable") {
		t.Errorf("%+v", o)
	}
}
