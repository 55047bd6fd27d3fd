// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/miekg/dns"

	names "github.com/drover-project/drover/core/agent/dns"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// world is a Source whose services change.
type world struct {
	mu       sync.Mutex
	index    uint64
	changed  chan struct{}
	services map[string][]names.Instance // by NAMESPACE/NAME
	broken   bool
	asked    atomic.Int64
}

func newWorld() *world {
	return &world{index: 1, changed: make(chan struct{}), services: map[string][]names.Instance{
		"default/web": {
			{ID: "1", Address: "10.0.0.1", Port: 8080, Tags: []string{"blue", "v1.2"}},
			{ID: "2", Address: "10.0.0.2", Port: 8081, Tags: []string{"green"}},
			{ID: "3", Address: "fd00::3", Port: 8082, Tags: []string{"green"}},
		},
		"default/Upper": {{ID: "1", Address: "10.0.0.4", Port: 1}},
		"team-a/web":    {{ID: "1", Address: "10.9.0.1", Port: 9, Weight: 5}},
		"default/far":   {{ID: "1", Address: "host.example.com", Port: 443, Weight: 1 << 20}},
	}}
}

func (w *world) set(service string, list ...names.Instance) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.services[service] = list
	w.index++
	close(w.changed)
	w.changed = make(chan struct{})
}

// Instances implements names.Source.
func (w *world) Instances(ctx context.Context, namespace, service string, since uint64, wait time.Duration) (names.Answer, error) {
	w.asked.Add(1)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		w.mu.Lock()
		broken, answer, changed := w.broken, names.Answer{Instances: w.services[namespace+"/"+service], Index: w.index}, w.changed
		w.mu.Unlock()
		if broken {
			return names.Answer{}, errdefs.Unavailablef("no server answers")
		}
		if since < answer.Index {
			return answer, nil
		}
		select {
		case <-changed:
		case <-timer.C:
			return answer, nil
		case <-ctx.Done():
			return names.Answer{}, ctx.Err()
		}
	}
}

// start returns a server on a free port of the machine's loopback.
func start(t *testing.T, source names.Source, change func(*names.Config)) (*names.Server, string) {
	t.Helper()
	c := names.Config{
		Domain: "service.drover", TTL: 5 * time.Second, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Source: source,
		NamespaceOf: func(netip.Addr) string { return "" }, Now: time.Now, Logger: hclog.NewNullLogger(),
	}
	if change != nil {
		change(&c)
	}
	s := names.New(c)
	t.Cleanup(s.Close)
	if err := s.Listen(netip.MustParseAddr("127.0.0.1")); err != nil {
		t.Fatal(err)
	}
	return s, s.Addresses()[0].String()
}

func ask(t *testing.T, at, network, name string, qtype uint16, change ...func(*dns.Msg)) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetQuestion(dns.Fqdn(name), qtype)
	for _, f := range change {
		f(m)
	}
	c := dns.Client{Net: network, Timeout: time.Minute}
	got, _, err := c.Exchange(m, at)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.TypeToString[qtype], err)
	}
	return got
}

// shown returns the data of records, in order.
func shown(list []dns.RR) []string {
	out := []string{}
	for _, rr := range list {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
	}
	slices.Sort(out)
	return out
}

func TestServicesAreFoundByNameTagAndNamespace(t *testing.T) {
	_, at := start(t, newWorld(), nil)
	for _, c := range []struct {
		name  string
		qtype uint16
		want  []string
		rcode int
	}{
		{"web.service.drover", dns.TypeA, []string{"10.0.0.1", "10.0.0.2"}, 0},
		{"WeB.SerVice.drover", dns.TypeA, []string{"10.0.0.1", "10.0.0.2"}, 0},
		{"Upper.service.drover", dns.TypeA, []string{"10.0.0.4"}, 0},
		{"web.service.drover", dns.TypeAAAA, []string{"fd00::3"}, 0},
		{"blue.web.service.drover", dns.TypeA, []string{"10.0.0.1"}, 0},
		{"v1.2.web.service.drover", dns.TypeA, []string{"10.0.0.1"}, 0},
		{"red.web.service.drover", dns.TypeA, nil, dns.RcodeNameError},
		{"web.team-a.ns.service.drover", dns.TypeA, []string{"10.9.0.1"}, 0},
		{"web.nobody.ns.service.drover", dns.TypeA, nil, dns.RcodeNameError},
		{"web.service.drover", dns.TypeTXT, nil, 0},
		{"web.service.drover", dns.TypeSRV, []string{"1 1 8080 0a000001.addr.service.drover.", "1 1 8081 0a000002.addr.service.drover.", "1 1 8082 fd000000000000000000000000000003.addr.service.drover."}, 0},
		{"_web._tcp.service.drover", dns.TypeSRV, []string{"1 1 8080 0a000001.addr.service.drover.", "1 1 8081 0a000002.addr.service.drover.", "1 1 8082 fd000000000000000000000000000003.addr.service.drover."}, 0},
		{"_web._blue.service.drover", dns.TypeSRV, []string{"1 1 8080 0a000001.addr.service.drover."}, 0},
		{"_web._tcp.team-a.ns.service.drover", dns.TypeSRV, []string{"1 5 9 0a090001.addr.service.drover."}, 0},
		{"0a000001.addr.service.drover", dns.TypeA, []string{"10.0.0.1"}, 0},
		{"far.service.drover", dns.TypeA, []string{"host.example.com."}, 0},
		{"far.service.drover", dns.TypeSRV, []string{"1 65535 443 host.example.com."}, 0},
		{"none.service.drover", dns.TypeA, nil, dns.RcodeNameError},
		{"2.web.service.drover", dns.TypeA, nil, 0}, // v1.2.web is below it
		{"_tcp.service.drover", dns.TypeSRV, nil, 0},
		{"addr.service.drover", dns.TypeA, nil, 0},
		{"ns.service.drover", dns.TypeA, nil, 0},
		{"team-a.ns.service.drover", dns.TypeA, nil, 0},
		{"_tcp.team-a.ns.service.drover", dns.TypeSRV, nil, 0},
		{"service.drover", dns.TypeNS, []string{"service.drover."}, 0},
		{"service.drover", dns.TypeA, nil, 0},
		{"web.service.drover", dns.TypeANY, []string{`"RFC8482" ""`}, 0},
		{"example.com", dns.TypeA, nil, dns.RcodeRefused},
		{"xservice.drover", dns.TypeA, nil, dns.RcodeRefused},
	} {
		got := ask(t, at, "udp", c.name, c.qtype)
		if list := shown(got.Answer); got.Rcode != c.rcode || !slices.Equal(list, c.want) && len(list)+len(c.want) > 0 {
			t.Errorf("%s %s: %s %q, want %s %q", c.name, dns.TypeToString[c.qtype], dns.RcodeToString[got.Rcode], list, dns.RcodeToString[c.rcode], c.want)
		}
		if ours := got.Rcode != dns.RcodeRefused; ours && (!got.Authoritative || len(got.Answer) == 0 && len(got.Ns) != 1) {
			t.Errorf("%s: the answer is not authoritative, or says not how long it may be remembered that there is none", c.name)
		}
	}
	extra := shown(ask(t, at, "udp", "web.service.drover", dns.TypeSRV).Extra)
	if want := []string{"10.0.0.1", "10.0.0.2", "fd00::3"}; !slices.Equal(extra, want) {
		t.Errorf("the addresses beside SRV records are %q, want %q", extra, want)
	}
	if ttl := ask(t, at, "udp", "web.service.drover", dns.TypeA).Answer[0].Header().Ttl; ttl != 5 {
		t.Errorf("the TTL is %d", ttl)
	}
}

func TestWhoAsksFromAnAllocAsksInItsNamespace(t *testing.T) {
	_, at := start(t, newWorld(), func(c *names.Config) { c.NamespaceOf = func(netip.Addr) string { return "team-a" } })
	if got := shown(ask(t, at, "udp", "web.service.drover", dns.TypeA).Answer); !slices.Equal(got, []string{"10.9.0.1"}) {
		t.Errorf("%q", got)
	}
	if got := shown(ask(t, at, "udp", "blue.web.default.ns.service.drover", dns.TypeA).Answer); !slices.Equal(got, []string{"10.0.0.1"}) {
		t.Errorf("another namespace: %q", got)
	}
}

func TestAChangeOfAServiceChangesTheAnswer(t *testing.T) {
	w := newWorld()
	_, at := start(t, w, nil)
	is := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("the answer is %q", want), func() bool {
			return slices.Equal(shown(ask(t, at, "udp", "late.service.drover", dns.TypeA).Answer), want)
		})
	}
	is()
	w.set("default/late", names.Instance{ID: "1", Address: "10.1.0.1"})
	is("10.1.0.1")
	w.set("default/late", names.Instance{ID: "1", Address: "10.1.0.1"}, names.Instance{ID: "2", Address: "10.1.0.2"})
	is("10.1.0.1", "10.1.0.2")
	w.set("default/late")
	is()
}

func TestWithoutServersTheLastAnswerStaysAndOthersFail(t *testing.T) {
	w := newWorld()
	_, at := start(t, w, nil)
	ask(t, at, "udp", "web.service.drover", dns.TypeA)
	w.mu.Lock()
	w.broken = true
	w.mu.Unlock()
	w.set("x/y")
	if got := ask(t, at, "udp", "web.service.drover", dns.TypeA); len(got.Answer) != 2 {
		t.Errorf("a known service: %s", got)
	}
	if got := ask(t, at, "udp", "other.service.drover", dns.TypeA); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("an unknown service: %s", got)
	}
	w.mu.Lock()
	w.broken = false
	w.mu.Unlock()
	if got := ask(t, at, "udp", "other.service.drover", dns.TypeA); got.Rcode != dns.RcodeNameError {
		t.Errorf("when servers are back: %s", got)
	}
}

func TestAnAnswerIsAsLargeAsTheClientCanTakeAndTheRestComesOverTCP(t *testing.T) {
	w := newWorld()
	var many []names.Instance
	for i := range 300 {
		many = append(many, names.Instance{ID: fmt.Sprint(i), Address: fmt.Sprintf("10.2.%d.%d", i/250, i%250), Port: 80})
	}
	w.set("default/many", many...)
	_, at := start(t, w, nil)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeSRV} {
		for size, most := range map[int]int{0: 512, 800: 800, 4096: 1232} {
			got := ask(t, at, "udp", "many.service.drover", qtype, func(m *dns.Msg) {
				if size > 0 {
					m.SetEdns0(uint16(size), false)
				}
			})
			got.Compress = true
			if raw, err := got.Pack(); err != nil || !got.Truncated || got.Len() > most || len(got.Answer) == 0 {
				t.Errorf("with %d bytes: %d bytes (%d), truncated %t, %v", size, got.Len(), len(raw), got.Truncated, err)
			}
		}
		if got := ask(t, at, "tcp", "many.service.drover", qtype); got.Truncated || len(got.Answer) != len(many) {
			t.Errorf("over TCP %d records, truncated %t", len(got.Answer), got.Truncated)
		}
	}
}

func TestStrangersAreRefused(t *testing.T) {
	_, at := start(t, newWorld(), func(c *names.Config) { c.Allow = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })
	if got := ask(t, at, "udp", "web.service.drover", dns.TypeA); got.Rcode != dns.RcodeRefused || len(got.Answer) > 0 {
		t.Errorf("%s", got)
	}
}

func TestAClientThatAsksTooMuchHasToComeOverTCP(t *testing.T) {
	now := time.Now()
	_, at := start(t, newWorld(), func(c *names.Config) { c.Rate, c.Now = 2, func() time.Time { return now } })
	conn, err := net.Dial("udp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	raw, err := new(dns.Msg).SetQuestion("web.service.drover.", dns.TypeA).Pack()
	if err != nil {
		t.Fatal(err)
	}
	for range 8 { // of which the bucket has room for 4
		if _, err := conn.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	full, short := 0, 0
	for range 6 { // every other one above the limit is answered
		buf := make([]byte, 2048)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		var m dns.Msg
		if err := m.Unpack(buf[:n]); err != nil {
			t.Fatal(err)
		}
		if m.Truncated && n <= len(raw) {
			short++
		} else {
			full++
		}
	}
	if full != 4 || short != 2 {
		t.Errorf("%d answers and %d requests to come over TCP", full, short)
	}
}

// upstream is another resolver.
func upstream(t *testing.T, answer func(w dns.ResponseWriter, r *dns.Msg)) string {
	t.Helper()
	tcp, err := net.Listen("tcp", "127.0.0.1:0") // of its port UDP is likely to be free
	if err != nil {
		t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*dns.Server{{PacketConn: udp}, {Listener: tcp}} {
		started := make(chan struct{})
		s.Handler, s.NotifyStartedFunc = dns.HandlerFunc(answer), func() { close(started) }
		go func() { _ = s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() { _ = s.Shutdown() })
	}
	return udp.LocalAddr().String()
}

func TestOtherQuestionsGoToTheFirstResolverThatAnswers(t *testing.T) {
	refuses := upstream(t, func(w dns.ResponseWriter, r *dns.Msg) { _ = w.WriteMsg(new(dns.Msg).SetRcode(r, dns.RcodeRefused)) })
	var long atomic.Int64
	knows := upstream(t, func(w dns.ResponseWriter, r *dns.Msg) {
		m := new(dns.Msg).SetReply(r)
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp && strings.HasPrefix(r.Question[0].Name, "long.") {
			m.Truncated = true
		} else if rr, err := dns.NewRR(r.Question[0].Name + " 60 A 192.0.2.7"); err == nil {
			m.Answer = append(m.Answer, rr)
			long.Add(1)
		}
		_ = w.WriteMsg(m)
	})
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("# nobody\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, at := start(t, newWorld(), func(c *names.Config) { c.Recursors = []string{file, "127.0.0.1:1", refuses, knows} })
	for _, name := range []string{"www.example.com", "long.example.com"} {
		for _, network := range []string{"udp", "tcp"} {
			got := ask(t, at, network, name, dns.TypeA, func(m *dns.Msg) { m.SetEdns0(1232, false) })
			if !slices.Equal(shown(got.Answer), []string{"192.0.2.7"}) || !got.RecursionAvailable || got.Authoritative {
				t.Errorf("%s over %s: %s", name, network, got)
			}
		}
	}
	if got := shown(ask(t, at, "udp", "far.service.drover", dns.TypeA).Answer); !slices.Equal(got, []string{"192.0.2.7", "host.example.com."}) {
		t.Errorf("a service with the name of a machine: %q", got)
	}
	if got := ask(t, at, "udp", "www.example.com", dns.TypeA, func(m *dns.Msg) { m.RecursionDesired = false }); got.Rcode != dns.RcodeRefused {
		t.Errorf("a question that asks for no recursion: %s", got)
	}
}

// Tasks have the server instead of the machine's resolver, whose domains they must not lose.
func TestShortNamesAreSearchedAsTheFilesOfResolversSay(t *testing.T) {
	dir := t.TempDir()
	none, some := filepath.Join(dir, "none"), filepath.Join(dir, "some")
	for file, text := range map[string]string{none: "nameserver 192.0.2.1\n", some: "nameserver 192.0.2.2\nsearch a.example b.example\noptions ndots:3 timeout:1\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		recursors []string
		want      names.Search
	}{
		"addresses": {[]string{"192.0.2.3:53"}, names.Search{}},
		"no domain": {[]string{none}, names.Search{}},
		"two files": {[]string{none, some}, names.Search{Domains: []string{"a.example", "b.example"}, Dots: 3}},
	} {
		s, _ := start(t, newWorld(), func(cfg *names.Config) { cfg.Recursors = c.recursors })
		if got := s.Search(); !slices.Equal(got.Domains, c.want.Domains) || got.Dots != c.want.Dots {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestALoopOfResolversEnds lets two servers pass questions on to each other, one of them
// through a resolver that keeps nothing of what the question had beside its name.
func TestALoopOfResolversEnds(t *testing.T) {
	var passed atomic.Int64
	var back atomic.Value
	plain := upstream(t, func(w dns.ResponseWriter, r *dns.Msg) {
		passed.Add(1)
		m := new(dns.Msg).SetQuestion(r.Question[0].Name, r.Question[0].Qtype)
		got, _, err := (&dns.Client{Timeout: 10 * time.Second}).Exchange(m, back.Load().(string))
		if err != nil {
			return
		}
		got.Id = r.Id
		_ = w.WriteMsg(got)
	})
	_, at := start(t, newWorld(), func(c *names.Config) { c.Recursors = []string{plain} })
	back.Store(at)
	if got := ask(t, at, "udp", "loop.example.com", dns.TypeA); got.Rcode != dns.RcodeServerFailure && got.Rcode != dns.RcodeRefused {
		t.Errorf("%s", got)
	}
	if n := passed.Load(); n > 4 {
		t.Errorf("the question went round %d times", n)
	}

	// A question that has its own mark is refused at once.
	var marked atomic.Value
	echo := upstream(t, func(w dns.ResponseWriter, r *dns.Msg) {
		marked.Store(r.Copy())
		_ = w.WriteMsg(new(dns.Msg).SetReply(r))
	})
	_, at = start(t, newWorld(), func(c *names.Config) { c.Recursors = []string{echo} })
	ask(t, at, "udp", "mark.example.com", dns.TypeA)
	c := dns.Client{Timeout: time.Minute}
	got, _, err := c.Exchange(marked.Load().(*dns.Msg), at)
	if err != nil || got.Rcode != dns.RcodeRefused {
		t.Errorf("its own question: %v, %v", got, err)
	}
}

func TestItNeverAsksItself(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := free.Addr().(*net.TCPAddr).AddrPort()
	_ = free.Close()
	_, at := start(t, newWorld(), func(c *names.Config) { c.Port, c.Recursors = int(own.Port()), []string{own.String()} })
	// Asked, it would refuse its own question.
	if got := ask(t, at, "udp", "example.com", dns.TypeA); got.Rcode != dns.RcodeServerFailure {
		t.Errorf("%s", got)
	}
}
