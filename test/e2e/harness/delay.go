// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package harness

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// Slow makes everything that a machine says to the rpc ports of others, and what they
// answer, arrive late: its connections go through a proxy. Those that are open are reset.
func (w *Network) Slow(a *Agent, delay time.Duration, to ...*Agent) {
	w.T.Helper()
	for _, other := range to {
		l, err := net.Listen("tcp", w.Subnet+"1:0")
		if err != nil {
			w.T.Fatal(err)
		}
		p := &proxy{listener: l, to: other.RPCAddress(), delay: delay}
		w.proxies = append(w.proxies, p)
		p.work.Go(p.serve)
		port := fmt.Sprintf("ip daddr %s tcp dport 4647", other.IPAddress())
		w.nft(a, "add table ip faults\n"+
			"add chain ip faults detour { type nat hook output priority -100; }\nadd rule ip faults detour "+port+" dnat to "+l.Addr().String()+"\n"+
			"add chain ip faults direct { type filter hook output priority 0; }\nadd rule ip faults direct "+port+" reject with tcp reset\n")
	}
}

// hasten ends all proxies, and with them what goes through them.
func (w *Network) hasten() {
	for _, p := range w.proxies {
		p.close()
	}
	w.proxies = nil
}

// proxy passes connections on to an address, and each piece of what is said in them after a
// delay.
type proxy struct {
	listener net.Listener
	to       string
	delay    time.Duration
	work     sync.WaitGroup

	mu     sync.Mutex
	open   []net.Conn
	closed bool
}

func (p *proxy) serve() {
	for {
		near, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() {
			far, err := net.DialTimeout("tcp", p.to, 5*time.Second)
			if err != nil {
				_ = near.Close() // who connects finds nobody
				return
			}
			if p.keep(near, far) {
				p.work.Go(func() { p.pass(near, far) })
				p.work.Go(func() { p.pass(far, near) })
			}
		})
	}
}

// keep notes connections for close, and closes them if that has been called.
func (p *proxy) keep(all ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open = append(p.open, all...); p.closed {
		for _, c := range all {
			_ = c.Close() // nothing was said
		}
	}
	return !p.closed
}

func (p *proxy) close() {
	p.mu.Lock()
	p.closed = true
	_ = p.listener.Close() // ends serve
	for _, c := range p.open {
		_ = c.Close() // what is under way is lost
	}
	p.mu.Unlock()
	p.work.Wait()
}

// piece is what was said in a connection at a moment.
type piece struct {
	at   time.Time
	text []byte
	end  bool
}

// inFlight limits the pieces that are on the way in one direction.
const inFlight = 1000

// pass passes on what is said in one direction.
func (p *proxy) pass(from, to net.Conn) {
	pieces := make(chan piece, inFlight)
	p.work.Go(func() {
		lost := false
		for x := range pieces {
			if lost {
				continue
			}
			<-time.After(time.Until(x.at.Add(p.delay)))
			if x.end {
				_ = to.Close() // both ends are gone now
				continue
			}
			if _, err := to.Write(x.text); err != nil {
				lost = true
				_ = from.Close() // who speaks is told that nobody hears
			}
		}
	})
	defer close(pieces)
	for {
		buf := make([]byte, 32<<10)
		n, err := from.Read(buf)
		if n > 0 {
			pieces <- piece{at: time.Now(), text: buf[:n]}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = from.Close() // it was reset or closed
			}
			pieces <- piece{at: time.Now(), end: true}
			return
		}
	}
}
