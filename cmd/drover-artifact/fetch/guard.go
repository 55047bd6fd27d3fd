// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fetch

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// reach classifies an address by its distance from this machine.
type reach int

const (
	public  reach = iota
	private       // this machine and its networks
	metal         // link-local addresses, where the metadata services of clouds are
)

// Ranges for which net/netip has no method.
var (
	shared    = netip.MustParsePrefix("100.64.0.0/10") // carrier-grade NAT
	thisNet   = netip.MustParsePrefix("0.0.0.0/8")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	metadata6 = netip.MustParseAddr("fd00:ec2::254")
	metadata4 = netip.MustParseAddr("100.100.100.200")
)

func reachOf(ip netip.Addr) reach {
	ip = ip.Unmap().WithZone("")
	if nat64.Contains(ip) {
		b := ip.As16()
		ip = netip.AddrFrom4([4]byte(b[12:]))
	}
	switch {
	case ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip == metadata4, ip == metadata6:
		return metal
	case ip.IsLoopback(), ip.IsPrivate(), ip.IsUnspecified(), shared.Contains(ip), thisNet.Contains(ip):
		return private
	}
	return public
}

// refusal is the error for an address that a source must not lead to.
type refusal struct {
	host string
	ip   string
}

// Error names the refused address and what to do.
func (r *refusal) Error() string {
	return fmt.Sprintf("the source resolves to %s (%s), an address of this machine or its network; if this is intended, write the address in the source itself", r.host, r.ip)
}

// guard decides which addresses a fetch may connect to. Public addresses are always
// allowed. Loopback and private addresses are allowed only if the source itself is
// at such an address, and link-local addresses only if the source names the address
// literally. This prevents a redirect or a DNS answer from directing a fetch of a
// public source to services that only this machine can reach.
type guard struct {
	host string // host of the source

	mu      sync.Mutex
	seen    bool // whether origin is known
	origin  reach
	refused *refusal
	proxies map[string]bool // host:port of proxies that the operator has configured
}

func newGuard(host string) *guard {
	g := &guard{host: strings.ToLower(host), proxies: map[string]bool{}}
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"} {
		if addr := proxyAddr(os.Getenv(name)); addr != "" {
			g.proxies[addr] = true
		}
	}
	return g
}

// proxyAddr returns the host:port of a proxy that an environment variable names.
func proxyAddr(text string) string {
	if text != "" && !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return ""
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// allow decides whether the fetch may connect to an address of a host.
func (g *guard) allow(host string, ip netip.Addr) error {
	host = strings.ToLower(host)
	r := reachOf(ip)
	g.mu.Lock()
	defer g.mu.Unlock()
	own := host == g.host
	if own && !g.seen {
		g.seen, g.origin = true, r
	}
	switch {
	case r == public:
		return nil
	case own && (net.ParseIP(host) != nil || host == "localhost"):
		return nil // the source names this address
	case r == private && g.seen && g.origin == private:
		return nil
	}
	g.refused = &refusal{host: host, ip: ip.String()}
	return errdefs.New(errdefs.InvalidArgument, g.refused)
}

// redirect decides whether the fetch may follow a redirect to a URL.
func (g *guard) redirect(u *url.URL) error {
	host := u.Hostname()
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return g.allow(host, netip.IPv6Loopback())
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return g.allow(host, ip)
	}
	return nil // its addresses are checked when they are dialed
}

// refusedAny returns the last refusal, or nil if there was none.
func (g *guard) refusedAny() *refusal {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.refused
}

// dial connects to an address that the guard allows.
func (g *guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %q: %w", addr, err)
	}
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		if g.proxies[strings.ToLower(addr)] {
			return nil
		}
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("read the address %q: %w", address, err)
		}
		return g.allow(host, at.Addr())
	}}
	return d.DialContext(ctx, network, addr)
}

// maxRedirects is the number of redirects that an http source may cause.
const maxRedirects = 10

// followTo returns the http.Client.CheckRedirect function: it limits redirects,
// checks them with the guard, and does not send the artifact's headers to other
// hosts.
func (g *guard) followTo(headers map[string]string) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, via []*http.Request) error {
		if len(via) >= maxRedirects {
			return errdefs.InvalidArgumentf("the source redirects more than %d times", maxRedirects)
		}
		if next.URL.Scheme != "http" && next.URL.Scheme != "https" {
			return errdefs.InvalidArgumentf("the source redirects to a URL of kind %q", next.URL.Scheme)
		}
		if next.URL.Host != via[0].URL.Host || via[0].URL.Scheme == "https" && next.URL.Scheme == "http" {
			for name := range headers {
				next.Header.Del(name)
			}
		}
		return g.redirect(next.URL)
	}
}
