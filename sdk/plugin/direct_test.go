// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package plugin_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/plugin"
)

// directly runs a test with both ends of a direct connection over each kind of socket.
func directly(t *testing.T, test func(t *testing.T, a, b net.Conn)) {
	for network, address := range map[string]string{"unix": filepath.Join(t.TempDir(), "s"), "tcp": "127.0.0.1:0"} {
		t.Run(network, func(t *testing.T) {
			a, b := directPair(t, network, address)
			test(t, a, b)
		})
	}
}

func directPair(t *testing.T, network, address string) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	a, b = plugin.Direct(a), plugin.Direct(b)
	t.Cleanup(func() {
		_ = a.Close() // a test may have closed it
		_ = b.Close()
	})
	return a, b
}

func TestADirectConnectionCarriesMoreThanTheSocketHolds(t *testing.T) { directly(t, carriesMuch) }

func carriesMuch(t *testing.T, a, b net.Conn) {
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	for _, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		done := make(chan error, 1)
		go func() {
			n, err := ends[0].Write(sent)
			if err == nil && n != len(sent) {
				err = io.ErrShortWrite
			}
			done <- err
		}()
		got := make([]byte, len(sent))
		if _, err := io.ReadFull(ends[1], got); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, sent) {
			t.Fatal("other bytes came than were sent")
		}
	}
}

func TestADirectConnectionEndsAsOthersDo(t *testing.T) { directly(t, endsAsOthers) }

func endsAsOthers(t *testing.T, a, b net.Conn) {
	if err := a.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	var timeout net.Error
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("after its deadline a read returns %v", err)
	}
	if err := a.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error, 1)
	go func() {
		_, err := a.Read(make([]byte, 1))
		waits <- err
	}()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-waits; err != io.EOF {
		t.Errorf("when the other side has closed a read returns %v", err)
	}
	for end := time.Now().Add(time.Minute); ; { // the other machine's kernel answers that it is closed
		n, err := a.Write([]byte("x"))
		if err != nil && n == 0 {
			break
		}
		if n != 1 || time.Now().After(end) {
			t.Fatalf("when the other side has closed a write returns %d, %v", n, err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close a read returns %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after Close a write returns %v", err)
	}
	if n, err := b.Read(nil); n != 0 || err != nil {
		t.Errorf("a read into nothing returns %d, %v", n, err)
	}
}
