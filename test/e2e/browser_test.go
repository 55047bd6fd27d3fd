// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// browse opens an address in headless chromium and returns the page after its
// scripts have run. Every host name resolves to this machine. It skips without
// chromium.
func browse(t *testing.T, address string) string {
	t.Helper()
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium on this machine")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	page, err := exec.CommandContext(ctx, chromium, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir="+t.TempDir(),
		"--host-resolver-rules=MAP * 127.0.0.1", "--virtual-time-budget=5000", "--dump-dom", address).Output()
	if err != nil {
		t.Fatalf("chromium at %s: %v", address, err)
	}
	return string(page)
}

// attack is a page that attacks the address: simple requests by script and by form,
// reads, an image whose URL changes something, and a websocket.
const attack = `<form id=f method=post enctype=text/plain target=x action="%[1]s/v1/jobs"><input name='%[2]s' value=''></form><iframe name=x></iframe>
<img src="%[1]s/v1/client/gc"><pre id=out></pre><script>
const at = "%[1]s", said = []
const tell = (s) => { said.push(s); document.getElementById("out").textContent = said.join(" ") }
document.getElementById("f").submit()
fetch(at + "/v1/jobs", {method: "POST", mode: "no-cors", body: document.querySelector("input").name}).then(() => tell("posted"), () => tell("not-posted"))
fetch(at + "/v1/jobs", {method: "PUT", body: "{}"}).then((r) => tell("put-" + r.status), () => tell("not-put"))
fetch(at + "/v1/client/stats").then((r) => tell("read-" + r.status), () => tell("not-read"))
const ws = new WebSocket(at.replace("http", "ws") + "/v1/client/allocation/11111111-2222-3333-4444-555555555555/exec?task=t&command=%%5B%%22x%%22%%5D")
ws.onopen = () => tell("talks"); ws.onerror = () => tell("silent")
</script>`

func TestAWebPageInABrowserCannotActOnALoopbackAgent(t *testing.T) {
	a := newAgent(t)
	a.start()
	job := `{"Job":{"ID":"evil","Name":"evil","Type":"batch","TaskGroups":[{"Name":"g","Count":1,"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"}}]}]}}`

	// The same page, opened against a recording server, proves that the browser sends
	// all of these requests.
	var mu sync.Mutex
	got := map[string]int{}
	open := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got[r.Method+" "+r.URL.Path]++
		if r.Method == http.MethodPost && !strings.HasPrefix(string(body), job) {
			t.Errorf("the browser posts %q", body)
		}
		if r.Header.Get("Sec-Fetch-Site") != "cross-site" && !strings.HasPrefix(r.Header.Get("Origin"), "http://evil.example:") { // a websocket request has only Origin
			t.Errorf("nothing tells where %s %s comes from: %v", r.Method, r.URL.Path, r.Header)
		}
	}))
	defer open.Close()
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, attack, r.URL.Query().Get("at"), job)
	}))
	defer evil.Close()
	u, err := url.Parse(evil.URL)
	if err != nil {
		t.Fatal(err)
	}
	page := func(at string) string { return "http://evil.example:" + u.Port() + "/?at=" + url.QueryEscape(at) }

	browse(t, page(open.URL))
	mu.Lock()
	if got["POST /v1/jobs"] != 2 || got["GET /v1/client/gc"] == 0 || got["GET /v1/client/stats"] == 0 {
		t.Errorf("the browser sent %v", got)
	}
	mu.Unlock()

	said := browse(t, page(a.Addr))
	for _, word := range []string{"not-put", "not-read", "silent"} {
		if !strings.Contains(said, word) {
			t.Errorf("%q is not in what the page saw: %s", word, said[strings.Index(said, "<pre"):])
		}
	}
	if jobs, _, err := a.Jobs(a.Context(), nil); err != nil || len(jobs) != 0 {
		t.Errorf("a web page registered %v, %v", jobs, err)
	}

	// A host name that was rebound to the agent's address can read nothing; the address
	// itself can.
	rebound := "http://rebound.example:" + a.Addr[strings.LastIndex(a.Addr, ":")+1:]
	if text := browse(t, rebound+"/v1/nodes"); !strings.Contains(text, "http_allowed_hosts") {
		t.Errorf("by a foreign name: %s", text)
	}
	if text := browse(t, a.Addr+"/v1/nodes"); !strings.Contains(text, "NodeClass") {
		t.Errorf("by its address: %s", text)
	}
}
