// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
)

const (
	firefox  = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	here     = "127.0.0.1:4646"
	evil     = "http://evil.example"
	friendly = "https://dash.example"
)

// asked is a request as a browser or another client makes it.
type asked struct {
	request string // METHOD PATH
	host    string
	headers string // "Name: value", a line each
	tls     bool
}

func (a asked) status(t *testing.T, h http.Handler) (int, http.Header, string) {
	t.Helper()
	method, path, _ := strings.Cut(a.request, " ")
	req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{}`))
	req.Host = a.host
	if a.tls {
		req.TLS = &tls.ConnectionState{}
	}
	for line := range strings.Lines(a.headers) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), ": ")
		req.Header.Set(k, v)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec.Code, rec.Header(), rec.Body.String()
}

func TestRequestsThatABrowserMakesForOtherSitesAreRefused(t *testing.T) {
	s := api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{
		Hosts:   []string{"Node1", "*.nomad.example", ""},
		Headers: map[string]string{"access-control-allow-origin": friendly},
	})
	gc := "/v1/client/allocation/" + uuid + "/gc"
	for name, c := range map[string]struct {
		asked
		refused bool
	}{
		// Clients that are no browsers, and pages of this agent, notice nothing.
		"curl reads":                   {asked{request: "GET /v1/jobs", host: here}, false},
		"curl writes":                  {asked{request: "PUT /v1/jobs", host: "localhost:4646"}, false},
		"curl collects with GET":       {asked{request: "GET " + gc, host: here, headers: "User-Agent: curl/8"}, false},
		"a client of HTTP/1.0":         {asked{request: "GET /v1/jobs"}, false},
		"a typed address":              {asked{request: "GET /v1/jobs", host: here, headers: "Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"}, false},
		"our page writes":              {asked{request: "PUT /v1/jobs", host: here, headers: "Sec-Fetch-Site: same-origin\nOrigin: http://" + here}, false},
		"our page, a plain LAN":        {asked{request: "PUT /v1/jobs", host: "10.0.0.5:4646", headers: "Origin: http://10.0.0.5:4646\nUser-Agent: " + firefox}, false},
		"our page behind TLS":          {asked{request: "PUT /v1/jobs", host: "a.nomad.example", headers: "Origin: https://a.nomad.example"}, false},
		"our page behind a proxy":      {asked{request: "PUT /v1/jobs", host: here, headers: "Sec-Fetch-Site: same-origin\nOrigin: https://public.example"}, false},
		"a link that is followed":      {asked{request: "GET /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"}, false},
		"our client's exec":            {asked{request: "GET /v1/client/allocation/" + uuid + "/exec?command=%5B%22x%22%5D", host: here, headers: "Origin: http://" + here}, false},
		"a site that is allowed":       {asked{request: "PUT /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nOrigin: " + friendly}, false},
		"a browser's GET on a LAN":     {asked{request: "GET /v1/jobs", host: "10.0.0.5:4646", headers: "User-Agent: " + firefox}, false},
		"PowerShell writes":            {asked{request: "PUT /v1/jobs", host: here, headers: "User-Agent: Mozilla/5.0 (Windows NT; en-US) WindowsPowerShell/5.1"}, false},
		"IPv6":                         {asked{request: "GET /v1/jobs", host: "[::1]:4646"}, false},
		"IPv6 without a port":          {asked{request: "GET /v1/jobs", host: "[fe80::1]"}, false},
		"the agent's name":             {asked{request: "GET /v1/jobs", host: "node1:4646"}, false},
		"the agent's name with a dot":  {asked{request: "GET /v1/jobs", host: "NODE1.:4646"}, false},
		"a name below localhost":       {asked{request: "GET /v1/jobs", host: "app.localhost:4646"}, false},
		"any name that TLS has proven": {asked{request: "GET /v1/jobs", host: "other.example", tls: true}, false},

		// Pages of others.
		"a form":                        {asked{request: "POST /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\nOrigin: " + evil + "\nContent-Type: application/x-www-form-urlencoded"}, true},
		"a fetch of text":               {asked{request: "POST /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nOrigin: " + evil + "\nContent-Type: text/plain;charset=UTF-8"}, true},
		"another port of this machine":  {asked{request: "POST /v1/jobs", host: "localhost:4646", headers: "Sec-Fetch-Site: same-site\nOrigin: http://localhost:3000"}, true},
		"a browser that says no site":   {asked{request: "POST /v1/jobs", host: here, headers: "Origin: " + evil}, true},
		"another port, no site":         {asked{request: "POST /v1/jobs", host: here, headers: "Origin: http://127.0.0.1:3000"}, true},
		"a sandboxed frame or a file":   {asked{request: "POST /v1/jobs", host: here, headers: "Origin: null"}, true},
		"an origin that is none":        {asked{request: "POST /v1/jobs", host: here, headers: "Origin: ::"}, true},
		"a site of the future":          {asked{request: "POST /v1/jobs", host: here, headers: "Sec-Fetch-Site: elsewhere"}, true},
		"a preflight":                   {asked{request: "OPTIONS /v1/jobs", host: here, headers: "Origin: " + evil + "\nAccess-Control-Request-Method: PUT"}, true},
		"a read by a fetch":             {asked{request: "GET /v1/var/a", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: cors\nOrigin: " + evil}, true},
		"files of an alloc":             {asked{request: "GET /v1/client/fs/ls/" + uuid, host: here, headers: "Origin: " + evil}, true},
		"a script or an image":          {asked{request: "GET /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image"}, true},
		"a frame":                       {asked{request: "GET /v1/jobs", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe"}, true},
		"an exec":                       {asked{request: "GET /v1/client/allocation/" + uuid + "/exec?command=%5B%22x%22%5D", host: here, headers: "Upgrade: websocket\nOrigin: " + evil}, true},
		"an action":                     {asked{request: "GET /v1/job/web/action?action=a&allocID=" + uuid, host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: websocket"}, true},
		"a link that acts":              {asked{request: "GET /v1/client/gc", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"}, true},
		"a link in a mail that acts":    {asked{request: "GET /v1/client/gc", host: here, headers: "Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document"}, true},
		"an image that acts, on a LAN":  {asked{request: "GET " + gc, host: "10.0.0.5:4646", headers: "User-Agent: " + firefox}, true},
		"collecting":                    {asked{request: "PUT /v1/system/gc", host: here, headers: "Sec-Fetch-Site: cross-site"}, true},
		"installing a plugin":           {asked{request: "POST /v1/agent/plugin/x/install", host: here, headers: "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nContent-Type: text/plain;charset=UTF-8"}, true},
		"installing, no site is said":   {asked{request: "POST /v1/agent/plugin/x/install", host: here, headers: "Origin: " + evil}, true},
		"a name of somebody else":       {asked{request: "GET /v1/jobs", host: "rebound.evil.example:4646"}, true},
		"that name, as its own origin":  {asked{request: "PUT /v1/jobs", host: "evil.example:4646", headers: "Origin: http://evil.example:4646\nSec-Fetch-Site: same-origin"}, true},
		"the name above a pattern":      {asked{request: "GET /v1/jobs", host: "nomad.example"}, true},
		"a name that only ends like us": {asked{request: "GET /v1/jobs", host: "evilnomad.example"}, true},
		"an address as a prefix":        {asked{request: "GET /v1/jobs", host: "127.0.0.1.evil.example:4646"}, true},
	} {
		status, _, body := c.status(t, s.Handler())
		if refused := status == http.StatusForbidden; refused != c.refused {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
	}
}

func TestARefusalOfABrowserSaysWhichSettingWouldAllowIt(t *testing.T) {
	s := api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{})
	_, _, body := asked{request: "GET /v1/jobs", host: `x.example:80`}.status(t, s.Handler())
	if !strings.Contains(body, `http_allowed_hosts = ["x.example"]`) {
		t.Error(body)
	}
	_, _, body = asked{request: "PUT /v1/jobs", host: here, headers: "Origin: " + friendly}.status(t, s.Handler())
	if !strings.Contains(body, `http_api_response_headers { Access-Control-Allow-Origin = "`+friendly+`" }`) {
		t.Error(body)
	}
	_, _, body = asked{request: "PUT /v1/jobs", host: here, headers: `Origin: http://a"<b>`}.status(t, s.Handler())
	if strings.ContainsAny(body, "<>") {
		t.Error("text of a header is sent back as it is: ", body)
	}
}

func TestASiteThatIsAllowedByNameMayAskForEverything(t *testing.T) {
	for origin, allowed := range map[string]bool{friendly: true, "*": false, "": false} {
		s := api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{Headers: map[string]string{"Access-Control-Allow-Origin": origin}})
		preflight := asked{request: "OPTIONS /v1/jobs", host: here, headers: "Origin: " + friendly + "\nAccess-Control-Request-Method: PUT\nAccess-Control-Request-Headers: x-nomad-token\nAccess-Control-Request-Private-Network: true"}
		status, h, _ := preflight.status(t, s.Handler())
		if allowed != (status == http.StatusNoContent) {
			t.Errorf("with %q the preflight is answered with %d", origin, status)
		}
		if allowed && (h.Get("Access-Control-Allow-Origin") != friendly || h.Get("Access-Control-Allow-Headers") != "x-nomad-token" ||
			!strings.Contains(h.Get("Access-Control-Allow-Methods"), "PUT") || h.Get("Access-Control-Allow-Private-Network") != "true") {
			t.Errorf("preflight: %v", h)
		}
		for _, path := range []string{"/v1/jobs", "/v1/client/fs/logs/" + uuid + "?task=t&type=stdout"} {
			status, h, _ = asked{request: "GET " + path, host: here, headers: "Sec-Fetch-Site: cross-site\nOrigin: " + friendly}.status(t, s.Handler())
			if allowed != (status == http.StatusOK) || allowed && h.Get("Access-Control-Allow-Origin") != friendly {
				t.Errorf("with %q %s is answered with %d, %v", origin, path, status, h)
			}
		}
	}
}
