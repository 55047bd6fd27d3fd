// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/sleep"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
)

// A server has one rpc port, for nodes and servers (gRPC) and for raft. With TLS the
// protocol of a connection is negotiated (ALPN). Without, connections of raft begin with
// a byte with which no HTTP/2 connection begins.
const (
	raftProtocol  = "drover-raft/1"
	grpcProtocol  = "h2"
	raftByte      = 0xd7
	http2Byte     = 'P'  // first byte of "PRI * HTTP/2.0"
	tlsRecordByte = 0x16 // first byte of a TLS handshake
)

const (
	// maxHandshakes is the number of connections whose protocol is not known yet;
	// others wait in the queue of the operating system.
	maxHandshakes = 256
	// maxWaiting is the number of connections that wait until somebody accepts them.
	maxWaiting = 256
	// complainEvery limits the log messages about refused connections.
	complainEvery = 10 * time.Second
)

// PortConfig configures a Port.
type PortConfig struct {
	// TLS protects the port; nil means no TLS.
	TLS *Credentials
	// Handshake is the time limit for a connection to show its protocol; 0 means
	// DefaultHandshake.
	Handshake time.Duration
	Logger    hclog.Logger
}

// Port is the rpc port of a server. It separates connections of raft from gRPC connections.
type Port struct {
	listener  net.Listener
	cfg       PortConfig
	tls       *tls.Config // nil without TLS
	raft      *queue
	grpc      *queue
	complain  complaints
	slots     chan struct{} // one for each handshake
	closed    context.Context
	close     context.CancelFunc
	work      sync.WaitGroup
	closeOnce sync.Once
}

// NewPort accepts connections on l until Close, which closes l.
func NewPort(l net.Listener, cfg PortConfig) *Port {
	if cfg.Handshake == 0 {
		cfg.Handshake = DefaultHandshake
	}
	p := &Port{listener: l, cfg: cfg, raft: newQueue(l.Addr()), grpc: newQueue(l.Addr()), slots: make(chan struct{}, maxHandshakes)}
	if cfg.TLS != nil {
		p.tls = cfg.TLS.Server(grpcProtocol, raftProtocol)
	}
	p.closed, p.close = context.WithCancel(context.Background())
	p.work.Go(p.accept)
	return p
}

// Raft returns the listener for raft. Closing it refuses raft's connections; it does
// not close the port.
func (p *Port) Raft() net.Listener { return p.raft }

// GRPC returns the listener for Server.Serve, which may be called later: until then a
// bounded number of connections waits.
func (p *Port) GRPC() net.Listener { return p.grpc }

// Close refuses further connections, and closes those that nobody has accepted.
func (p *Port) Close() error {
	var err error
	p.closeOnce.Do(func() {
		p.close()
		err = errors.Join(p.listener.Close(), p.raft.Close(), p.grpc.Close())
		p.work.Wait()
	})
	return err
}

func (p *Port) accept() {
	for {
		select {
		case p.slots <- struct{}{}:
		case <-p.closed.Done():
			return
		}
		conn, err := p.listener.Accept()
		if err != nil {
			<-p.slots
			if p.closed.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			p.complain.say(func(more int) {
				p.cfg.Logger.Error("a connection to the rpc port could not be accepted; the limit of open files may be too low", "error", err, "more", more)
			})
			_ = sleep.For(p.closed, 50*time.Millisecond) // a failure that stays must not keep a processor busy
			continue
		}
		p.work.Go(func() {
			defer func() { <-p.slots }()
			p.admit(plugin.Direct(conn)) // 5,000 idle nodes beat 1,250 times a second
		})
	}
}

// admit passes a connection to the listener of its protocol, or refuses it.
func (p *Port) admit(raw net.Conn) {
	stop := context.AfterFunc(p.closed, func() { _ = raw.Close() }) // ends the handshake
	conn, to, err := p.handshake(raw)
	if !stop() && err == nil {
		err = net.ErrClosed
	}
	if err == nil {
		err = to.put(conn)
	}
	if err == nil {
		return
	}
	_ = raw.Close() // there is nobody to tell
	if p.closed.Err() == nil {
		p.complain.say(func(more int) {
			p.cfg.Logger.Warn("a connection to the rpc port was refused", "from", raw.RemoteAddr(), "error", err, "more", more)
		})
	}
}

// handshake finds out the protocol of a connection.
func (p *Port) handshake(raw net.Conn) (net.Conn, *queue, error) {
	if err := raw.SetDeadline(time.Now().Add(p.cfg.Handshake)); err != nil {
		return nil, nil, err
	}
	var conn net.Conn
	var to *queue
	var err error
	if p.tls != nil {
		conn, to, err = p.secure(raw)
	} else {
		conn, to, err = p.plain(raw)
	}
	if err != nil {
		return nil, nil, err
	}
	return conn, to, raw.SetDeadline(time.Time{})
}

func (p *Port) secure(raw net.Conn) (net.Conn, *queue, error) {
	conn := tls.Server(raw, p.tls)
	if err := conn.HandshakeContext(p.closed); err != nil {
		return nil, nil, fmt.Errorf("TLS: %w", err)
	}
	state := conn.ConnectionState()
	role := p.cfg.TLS.ofServer(state)
	if state.NegotiatedProtocol == raftProtocol {
		return conn, p.raft, role
	}
	return &machine{Conn: conn, state: state, role: role}, p.grpc, nil // gRPC refuses protocols other than its own
}

func (p *Port) plain(raw net.Conn) (net.Conn, *queue, error) {
	var first [1]byte
	if _, err := raw.Read(first[:]); err != nil {
		return nil, nil, fmt.Errorf("nothing was sent: %w", err)
	}
	switch first[0] {
	case raftByte:
		return raw, p.raft, nil
	case http2Byte:
		return &begun{Conn: raw, first: first[:]}, p.grpc, nil
	case tlsRecordByte:
		return nil, nil, errdefs.InvalidArgumentf("it speaks TLS, and this server does not: set tls { rpc = true } on all servers and nodes, or on none")
	}
	return nil, nil, errdefs.InvalidArgumentf("it begins with byte %#x, which neither a node nor a server of this version sends", first[0])
}

// begun is a connection whose first bytes were read.
type begun struct {
	net.Conn
	mu    sync.Mutex
	first []byte
}

// Read returns the bytes that were read to recognize the protocol, and then reads on.
func (c *begun) Read(p []byte) (int, error) {
	c.mu.Lock()
	n := copy(p, c.first)
	c.first = c.first[n:]
	c.mu.Unlock()
	if n > 0 || len(p) == 0 {
		return n, nil
	}
	return c.Conn.Read(p)
}

// DialRaft returns how raft connects to the ports of other servers; nil means no TLS.
func DialRaft(secure *Credentials) func(address string, timeout time.Duration) (net.Conn, error) {
	var config *tls.Config
	if secure != nil {
		config = secure.Client()
		config.NextProtos = []string{raftProtocol}
	}
	return func(address string, timeout time.Duration) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		return dialRaft(ctx, address, config)
	}
}

func dialRaft(ctx context.Context, address string, config *tls.Config) (net.Conn, error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	if config == nil {
		if _, err := raw.Write([]byte{raftByte}); err != nil {
			return nil, errors.Join(err, raw.Close())
		}
		return raw, nil
	}
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("TLS with the server at %s: %w", address, err), raw.Close())
	}
	if got := conn.ConnectionState().NegotiatedProtocol; got != raftProtocol {
		return nil, errors.Join(errdefs.FailedPreconditionf("%s does not speak %s but %q: it is not a server of this version", address, raftProtocol, got), raw.Close())
	}
	return conn, nil
}

// queue is a listener of connections that were accepted elsewhere.
type queue struct {
	address net.Addr
	conns   chan net.Conn

	mu     sync.Mutex
	closed chan struct{}
	ended  bool
}

func newQueue(address net.Addr) *queue {
	return &queue{address: address, conns: make(chan net.Conn, maxWaiting), closed: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return net.ErrClosed
	}
	select {
	case q.conns <- conn:
		return nil
	default:
		return errdefs.ResourceExhaustedf("%d connections wait already; this server is starting or busy, try again", maxWaiting)
	}
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and closes the connections that wait.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended {
		return nil
	}
	q.ended = true
	close(q.closed)
	for {
		select {
		case conn := <-q.conns:
			_ = conn.Close() // nobody has seen it
		default:
			return nil
		}
	}
}

// Addr returns the address of the port.
func (q *queue) Addr() net.Addr { return q.address }

// complaints limits how often something is logged.
type complaints struct {
	mu   sync.Mutex
	next time.Time
	more int
}

// say calls log at most once in complainEvery, with the number of the calls before that
// were not logged.
func (c *complaints) say(log func(more int)) {
	c.mu.Lock()
	now, more := time.Now(), c.more
	if now.Before(c.next) {
		c.more++
		c.mu.Unlock()
		return
	}
	c.next, c.more = now.Add(complainEvery), 0
	c.mu.Unlock()
	log(more)
}
