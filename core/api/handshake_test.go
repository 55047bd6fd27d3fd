// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
)

// secured serves the API over TLS and returns a client that trusts it.
func secured(t *testing.T, handshake time.Duration) (addr string, client *http.Client) {
	t.Helper()
	lender := httptest.NewTLSServer(nil) // of a certificate
	t.Cleanup(lender.Close)
	addr = listen(t, newBackend(threeJobs()), api.Config{TLS: lender.TLS.Clone(), Handshake: handshake, HeaderTimeout: time.Minute})
	client = lender.Client()
	t.Cleanup(client.CloseIdleConnections)
	return addr, client
}

func TestHostileAConnectionThatStallsItsHandshakeIsClosedAndDelaysNobody(t *testing.T) {
	addr, client := secured(t, 300*time.Millisecond)
	var stalled []net.Conn
	for _, say := range []string{"", "\x16\x03\x01\x02\x00\x01"} { // nothing, and the begin of a hello
		c := dial(t, addr)
		if _, err := io.WriteString(c, say); err != nil {
			t.Fatal(err)
		}
		stalled = append(stalled, c)
	}
	resp, err := client.Get("https://" + addr + "/v1/jobs")
	if err != nil {
		t.Fatalf("beside them: %v", err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("beside them: %s", resp.Status)
	}
	for i, c := range stalled {
		if _, err := io.ReadAll(c); err != nil {
			if op, ok := err.(net.Error); ok && op.Timeout() {
				t.Errorf("connection %d stays open", i)
			}
		}
	}
}

func TestAConnectionMayRestLongerThanItsHandshakeMayTake(t *testing.T) {
	addr, client := secured(t, 300*time.Millisecond)
	c, err := tls.Dial("tcp", addr, client.Transport.(*http.Transport).TLSClientConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stalled := dial(t, addr)
	_, _ = io.ReadAll(stalled) // its time is over, and so is the other one's
	if got := say(t, c); got != "HTTP/1.1 200 OK" {
		t.Errorf("a connection that rested: %s", got)
	}
}

func TestAClientThatSpeaksNoTLSIsTold(t *testing.T) {
	addr, _ := secured(t, 0)
	c := dial(t, addr)
	if got := say(t, c); !strings.HasPrefix(got, "HTTP/1.0 400") {
		t.Errorf("got %q", got)
	}
}
