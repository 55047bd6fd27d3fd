// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// sites distinguishes requests of this agent's users from requests that a foreign web
// page makes through a user's browser. Whoever may register a job can run code on the
// nodes, and a browser on the agent's machine can reach its loopback address, so every
// page in such a browser could do so (CSRF and DNS rebinding).
type sites struct {
	hosts  []string // names of this agent in lower case; "*" is any name, "*.x" all names below x
	acting []ends   // paths of the GET requests that change something
	origin string   // the one other origin that is allowed by name, "" for none
}

// newSites returns the rules for an agent with the given host names and answer
// headers.
func newSites(hosts []string, headers map[string]string) sites {
	s := sites{acting: pathsOf(func(a *action) bool { return a.acts })}
	for _, h := range hosts {
		if h != "" {
			s.hosts = append(s.hosts, strings.ToLower(h))
		}
	}
	for k, v := range headers {
		if http.CanonicalHeaderKey(k) == "Access-Control-Allow-Origin" && v != "*" && v != "null" {
			s.origin = v
		}
	}
	return s
}

// caller is what a request says about its sender.
type caller struct {
	method    string
	path      string
	host      string // the Host header
	bound     bool   // the host name is proven by TLS or by the use of a unix socket
	origin    string // Origin header
	site      string // Sec-Fetch-Site header
	mode      string // Sec-Fetch-Mode header
	dest      string // Sec-Fetch-Dest header
	userAgent string
}

// refusal returns why a request must be rejected, or "".
//
// Browsers report the source of a request truthfully: pages cannot change Sec-Fetch-*,
// Origin and Host. Browsers send Sec-Fetch-* only to HTTPS and loopback addresses, and
// Origin with all requests except plain GETs.
func (s sites) refusal(c caller) string {
	if !c.bound && !s.isOurs(hostName(c.host)) {
		return "the request is for the host " + quoteHost(c.host) + ", which is not a name of this agent: any web page could reach the agent by a name of its own; " +
			"if clients or a proxy call the agent so, add http_allowed_hosts = [" + quoteHost(hostName(c.host)) + "] to its configuration"
	}
	if c.origin != "" && c.origin == s.origin {
		return ""
	}
	acts := s.acts(c)
	switch c.site {
	case "same-origin":
		return ""
	case "none": // typed, a bookmark, or a link in another program
		if !acts || !readMethod(c.method) {
			return ""
		}
		return "a link cannot ask for what acts: send PUT instead of GET"
	case "":
		switch {
		case c.origin != "" && !sameHost(c.origin, c.host):
			return crossSite(c.origin)
		case c.origin == "" && acts && readMethod(c.method) && strings.HasPrefix(c.userAgent, "Mozilla/"):
			// This may be an image or a link of a page: only its User-Agent distinguishes
			// it from a client.
			return "browsers cannot ask for what acts with GET: send PUT"
		}
		return ""
	}
	if !acts && c.mode == "navigate" && c.dest == "document" {
		return "" // a user follows a link to this agent: the linking page cannot read the answer
	}
	return crossSite(c.origin)
}

func crossSite(origin string) string {
	if origin == "" || origin == "null" {
		return "a web page of another site asked the browser for this, and such requests are refused"
	}
	return "a web page of " + quoteHost(origin) + " asked the browser for this, and requests of other sites are refused; " +
		"to allow that site, add http_api_response_headers { Access-Control-Allow-Origin = " + quoteHost(origin) + " } to the agent's configuration"
}

func readMethod(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// acts reports whether the request changes something: by its method, or as one of the
// few GET requests that do, for clients of the reference.
func (s sites) acts(c caller) bool { return !readMethod(c.method) || matchAny(s.acting, c.path) }

// isOurs reports whether a host is one of this agent's. Every IP address is: a page
// with it as origin was loaded from this agent.
func (s sites) isOurs(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.ContainsFunc(s.hosts, func(name string) bool {
		below, isPattern := strings.CutPrefix(name, "*.")
		return name == "*" || name == host || isPattern && strings.HasSuffix(host, "."+below)
	})
}

// hostName returns a Host header without its port and brackets.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// sameHost reports whether a page of the origin was loaded from the host. It ignores
// the scheme, since TLS may end at a proxy in front of the agent.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	port := map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
	return strings.EqualFold(strings.TrimSuffix(u.Host, port), strings.TrimSuffix(host, port))
}

// quoteHost makes the text of a header safe for an answer.
func quoteHost(text string) string {
	return `"` + strings.Map(func(r rune) rune {
		if r <= ' ' || r > '~' || strings.ContainsRune(`"'\<>&`, r) {
			return '?'
		}
		return r
	}, text[:min(len(text), 256)]) + `"`
}

// guarded answers requests that browsers make for foreign pages with 403. Pages of an
// origin that is allowed by name may send all requests.
func (s *Server) guarded(next http.Handler) http.Handler {
	rule := newSites(s.cfg.Hosts, s.cfg.Headers)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		why := rule.refusal(callerOf(r))
		h := w.Header()
		switch {
		case why != "":
			s.log.Debug("refused a request of a browser", "method", r.Method, "path", r.URL.Path, "host", r.Host, "origin", r.Header.Get("Origin"))
			h.Add("Vary", "Origin, Sec-Fetch-Site")
			writeError(w, http.StatusForbidden, why)
		case rule.origin != "" && r.Header.Get("Origin") == rule.origin:
			h.Add("Vary", "Origin")
			h.Set("Access-Control-Allow-Origin", rule.origin)
			if r.Method != http.MethodOptions {
				next.ServeHTTP(w, r)
				return
			}
			h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE")
			h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			if r.Header.Get("Access-Control-Request-Private-Network") != "" {
				h.Set("Access-Control-Allow-Private-Network", "true")
			}
			w.WriteHeader(http.StatusNoContent)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func callerOf(r *http.Request) caller {
	at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	h := r.Header
	return caller{
		method: r.Method, path: r.URL.Path, host: r.Host, bound: r.TLS != nil || at != nil && at.Network() == "unix",
		origin: h.Get("Origin"), site: h.Get("Sec-Fetch-Site"), mode: h.Get("Sec-Fetch-Mode"), dest: h.Get("Sec-Fetch-Dest"),
		userAgent: h.Get("User-Agent"),
	}
}
