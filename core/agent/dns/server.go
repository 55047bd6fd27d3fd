// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/miekg/dns"

	"github.com/drover-project/drover/core/connlimit"
	"github.com/drover-project/drover/core/panics"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// atOnce is how many questions are answered at the same time; more over UDP are dropped.
	atOnce = 1024
	// connsEach is how many connections a client may have, and conns how many all together.
	connsEach, conns = 32, 512
	// answerLimit bounds the time for an answer.
	answerLimit = 6 * time.Second
)

// Config configures a Server.
type Config struct {
	Domain string // such as service.drover
	Port   int
	TTL    time.Duration // how long clients may keep answers about services
	// Recursors are the resolvers for other questions: addresses with ports, and absolute
	// paths of files like /etc/resolv.conf. Without any, other questions are refused.
	Recursors []string
	// Allow are the networks from which questions are answered.
	Allow []netip.Prefix
	// Rate is how many questions a client may ask per second; 0 is no limit.
	Rate   int
	Source Source
	// NamespaceOf returns the namespace of the alloc that has an address; "" if none has.
	NamespaceOf func(netip.Addr) string
	Now         func() time.Time
	Logger      hclog.Logger
}

// Server answers DNS questions.
type Server struct {
	cfg     Config
	domain  string
	names   *names
	forward *forwarder
	clients *clients
	slots   chan struct{}
	conns   chan struct{}
	cancel  context.CancelFunc
	ctx     context.Context

	mu     sync.Mutex
	open   map[netip.Addr]*doors
	closed bool
}

// doors are the two listeners of an address.
type doors struct{ udp, tcp *dns.Server }

// New returns a server that listens nowhere yet.
func New(cfg Config) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		cfg: cfg, domain: dns.CanonicalName(cfg.Domain), slots: make(chan struct{}, atOnce), conns: make(chan struct{}, conns), ctx: ctx, cancel: cancel,
		clients: &clients{each: cfg.Rate, now: cfg.Now, known: map[netip.Prefix]*client{}}, open: map[netip.Addr]*doors{},
	}
	s.names = newNames(ctx, cfg.Source, func(service string, err error) {
		cfg.Logger.Warn("the servers do not say which instances a service has; it is tried again", "service", service, "error", err)
	})
	s.forward = newForwarder(&recursors{given: cfg.Recursors, self: s.listensOn, now: cfg.Now, warn: func(file string, err error) {
		cfg.Logger.Warn("the resolvers that a file names are not known", "file", file, "error", err)
	}})
	return s
}

// Listen answers questions to an address of the machine from now on, over UDP and TCP. It may
// be called again.
func (s *Server) Listen(address netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.open[address] != nil {
		return nil
	}
	at := net.JoinHostPort(address.String(), strconv.Itoa(s.cfg.Port))
	tcp, err := net.Listen("tcp", at) // first: of a port that the system chooses, UDP is more likely to be free
	if err != nil {
		return errdefs.FailedPreconditionf("answer DNS questions on %s: %w", at, err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		return errors.Join(errdefs.FailedPreconditionf("answer DNS questions on %s: %w", at, err), tcp.Close())
	}
	d := &doors{
		udp: &dns.Server{PacketConn: udp, Handler: s, UDPSize: udpSize, MsgAcceptFunc: accept},
		tcp: &dns.Server{Listener: connlimit.New(limited{tcp, s.conns}, connsEach, nil), Handler: s, MsgAcceptFunc: accept, MaxTCPQueries: 1000},
	}
	s.open[address] = d
	for _, one := range []*dns.Server{d.udp, d.tcp} {
		started := make(chan struct{})
		one.NotifyStartedFunc = func() { close(started) }
		failed := make(chan error, 1)
		go func() {
			err := one.ActivateAndServe()
			failed <- err
			if err != nil && s.ctx.Err() == nil {
				s.cfg.Logger.Error("no DNS questions are answered any more", "address", at, "error", err)
			}
		}()
		select {
		case <-started:
		case err := <-failed:
			return fmt.Errorf("answer DNS questions on %s: %w", at, err)
		}
	}
	return nil
}

// Addresses returns where the server listens, with the ports.
func (s *Server) Addresses() (out []netip.AddrPort) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.open {
		if a, ok := d.udp.PacketConn.LocalAddr().(*net.UDPAddr); ok {
			at := a.AddrPort()
			out = append(out, netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// listensOn reports whether an address is one of this server.
func (s *Server) listensOn(a netip.AddrPort) bool {
	for _, own := range s.Addresses() {
		if own.Port() == a.Port() && (own.Addr() == a.Addr() || own.Addr().IsUnspecified() && local(a.Addr())) {
			return true
		}
	}
	return false
}

// local reports whether an address is one of the machine.
func local(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(all, func(one net.Addr) bool {
		n, ok := one.(*net.IPNet)
		return ok && n.IP.Equal(a.AsSlice())
	})
}

// Search returns what the files among the recursors say about short names. Who asks this server
// instead of the resolvers in these files appends the same domains.
func (s *Server) Search() Search { return s.forward.recursors.found().search }

// Close ends the server.
func (s *Server) Close() {
	s.cancel()
	s.mu.Lock()
	open := s.open
	s.open, s.closed = nil, true
	s.mu.Unlock()
	for _, d := range open {
		_ = d.udp.Shutdown() // which ends what is under way
		_ = d.tcp.Shutdown()
	}
	s.names.work.Wait()
}

// accept refuses what is no question before it is read.
func accept(h dns.Header) dns.MsgAcceptAction {
	const response, opcode = 1 << 15, 0xF << 11
	switch {
	case h.Bits&response != 0:
		return dns.MsgIgnore // or two servers would talk forever
	case h.Bits&opcode != 0:
		return dns.MsgRejectNotImplemented
	case h.Qdcount != 1 || h.Ancount != 0 || h.Nscount != 0 || h.Arcount > 2:
		return dns.MsgReject
	}
	return dns.MsgAccept
}

// ServeDNS implements dns.Handler: it answers one message.
func (s *Server) ServeDNS(w dns.ResponseWriter, r *dns.Msg) {
	from, err := netip.ParseAddrPort(w.RemoteAddr().String())
	if err != nil || len(r.Question) != 1 {
		return
	}
	client, udp := from.Addr().Unmap(), false
	if _, is := w.RemoteAddr().(*net.UDPAddr); is {
		udp = true
	}
	m := new(dns.Msg)
	m.SetReply(r)
	ok, tell := s.clients.allow(client)
	if !ok {
		if udp && tell {
			m.Truncated = true
			s.write(w, r, m, udp)
		}
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		if udp {
			return // the client asks again
		}
		m.Rcode = dns.RcodeServerFailure
		s.write(w, r, m, udp)
		return
	}
	if p := panics.Catch(func() { m = s.answer(r, m, client) }); p != nil {
		s.cfg.Logger.Error("a DNS question could not be answered", p.Fields("question", r.Question[0].Name)...)
		m = new(dns.Msg)
		m.SetRcode(r, dns.RcodeServerFailure)
	}
	s.write(w, r, m, udp)
}

// answer answers a question.
func (s *Server) answer(r, m *dns.Msg, client netip.Addr) *dns.Msg {
	ctx, cancel := context.WithTimeout(s.ctx, answerLimit)
	defer cancel()
	q := r.Question[0]
	m.RecursionAvailable = s.forward.recursors.any()
	if opt := r.IsEdns0(); opt != nil && opt.Version() != 0 {
		m.Rcode = dns.RcodeBadVers
		return m
	}
	if !slices.ContainsFunc(s.cfg.Allow, func(p netip.Prefix) bool { return p.Contains(client) }) || q.Qclass != dns.ClassINET {
		m.Rcode = dns.RcodeRefused
		return m
	}
	if labels, ours := within(q.Name, s.domain); ours {
		s.services(ctx, m, labels, client)
		return m
	}
	switch {
	case !m.RecursionAvailable || !r.RecursionDesired || q.Qtype == dns.TypeAXFR || q.Qtype == dns.TypeIXFR:
		m.Rcode = dns.RcodeRefused
		return m
	case s.forward.looped(r):
		s.cfg.Logger.Warn("a DNS question came back that this agent had passed on; remove its address from the resolvers that dns.recursors names", "from", client, "question", q.Name)
		m.Rcode = dns.RcodeRefused
		return m
	}
	got, err := s.forward.ask(ctx, r)
	if err != nil {
		s.cfg.Logger.Debug("a DNS question could not be passed on", "question", q.Name, "error", err)
		m.Rcode = dns.RcodeServerFailure
		return m
	}
	out := got.Copy()
	out.Id, out.Question, out.RecursionAvailable, out.Authoritative = r.Id, r.Question, true, false
	return out
}

// write sends an answer, as much of it as the client can take.
func (s *Server) write(w dns.ResponseWriter, r, m *dns.Msg, udp bool) {
	m.Extra = slices.DeleteFunc(m.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
	size := dns.MaxMsgSize
	if udp {
		size = dns.MinMsgSize
	}
	if opt := r.IsEdns0(); opt != nil {
		if udp {
			size = min(max(int(opt.UDPSize()), dns.MinMsgSize), udpSize)
		}
		m.SetEdns0(udpSize, opt.Do())
	}
	m.Truncate(size)
	if err := w.WriteMsg(m); err != nil {
		s.cfg.Logger.Debug("a DNS answer could not be sent", "to", w.RemoteAddr(), "error", err)
	}
}

// namespaceOf returns the namespace in which a client asks: the namespace of its alloc, or the default.
func (s *Server) namespaceOf(client netip.Addr) string {
	if ns := s.cfg.NamespaceOf(client); ns != "" {
		return ns
	}
	return "default"
}

// limited bounds the connections of a listener.
type limited struct {
	net.Listener
	slots chan struct{}
}

// Accept implements net.Listener.
func (l limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotted{Conn: c, free: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			_ = c.Close() // too many
		}
	}
}

type slotted struct {
	net.Conn
	free func()
}

// Close implements net.Conn.
func (c *slotted) Close() error {
	c.free()
	return c.Conn.Close()
}
