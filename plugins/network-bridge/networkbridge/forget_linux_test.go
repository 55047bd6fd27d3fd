// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	network "github.com/drover-project/drover/sdk/network/v1"
)

// echo answers packets to a port of a namespace with a word, until the test ends.
func echo(t *testing.T, path string, port int, word string) {
	t.Helper()
	var l net.PacketConn
	if err := inside(t, path, func() (err error) {
		l, err = net.ListenPacket("udp4", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for body := make([]byte, 100); ; {
			_, from, err := l.ReadFrom(body)
			if err != nil {
				return
			}
			_, _ = l.WriteTo([]byte(word), from)
		}
	}()
}

// The kernel decides once where the packets of a sender go, and forgets it when nothing has come
// for half a minute: a program that reports each second would never get to an alloc that starts
// later, or again.
func TestWhoSentBeforeAnAllocWasThereAndGoesOnGetsToIt(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	b.create(n, "other", network.Port{Label: "x", HostPort: 29483, Port: 1}) // from now on the kernel decides
	const port = 29482
	for _, host := range []string{machineAddress(t), "127.0.0.1"} {
		sender, err := net.ListenPacket("udp4", ":0")
		if err != nil {
			t.Fatal(err)
		}
		defer sender.Close()
		to := &net.UDPAddr{IP: net.ParseIP(host), Port: port}
		send := func(wait time.Duration) (string, error) {
			t.Helper()
			if _, err := sender.WriteTo([]byte("report"), to); err != nil {
				t.Fatal(err)
			}
			if err := sender.SetReadDeadline(time.Now().Add(wait)); err != nil {
				t.Fatal(err)
			}
			body := make([]byte, 100)
			size, _, err := sender.ReadFrom(body)
			return string(body[:size]), err
		}
		for _, id := range []string{"first", "second"} {
			if word, err := send(time.Millisecond); err == nil {
				t.Fatalf("%s answers %q before there is an alloc", host, word)
			}
			a, err := n.Create(t.Context(), network.Request{AllocID: id, Network: "bridge", Ports: []network.Port{{Label: "u", HostPort: port, Port: 53, HostIP: host}}})
			if err != nil {
				t.Fatal(err)
			}
			echo(t, a.Path, 53, id)
			end := time.Now().Add(20 * time.Second)
			word, err := send(50 * time.Millisecond)
			for errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(end) {
				word, err = send(50 * time.Millisecond)
			}
			if word != id || err != nil {
				t.Errorf("%s: the %s alloc answers %q, %v", host, id, word, err)
			}
			if err := n.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
	}
}
