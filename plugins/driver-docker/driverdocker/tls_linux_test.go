// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker_test

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// behindTLS serves the daemon's socket over TLS. It returns the address, and a
// function that writes the authority's file with a new name.
func behindTLS(t *testing.T, n *node) (endpoint string, authority func(name string) string) {
	t.Helper()
	socket := strings.TrimPrefix(n.docker.Endpoint(), "unix://")
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "docker"})
	proxy.FlushInterval = -1
	proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}
	server := httptest.NewTLSServer(proxy)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	body := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return "tcp://" + server.Listener.Addr().String(), func(name string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

func TestADaemonBehindTLSIsUsedAndItsCertificatesMayChange(t *testing.T) {
	n := newNode(t, nil)
	endpoint, authority := behindTLS(t, n)
	over := func(ca string) {
		n.configure(with(n.config, map[string]any{"endpoint": endpoint, "tls": map[string]any{"ca": ca}}))
	}
	over(authority("one.pem"))
	tc := n.task(script("echo one; while [ ! -e /local/go ]; do usleep 20000; done; echo two; exit 4"))
	h := n.run(tc)
	eventually(t, "its output comes", func() bool { return n.printed(tc) == "one\n" })
	over(authority("two.pem"))
	if s, err := n.d.InspectTask(limit(t), tc.ID); err != nil || s.State != driver.TaskRunning {
		t.Fatalf("the task with other certificates: %+v, %v", s, err)
	}
	samples, err := n.d.TaskStats(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for measured := false; !measured; {
		select {
		case batch := <-samples:
			measured = len(batch) == 1 && batch[0].TaskID == tc.ID && batch[0].Memory.Usage > 0
		case <-time.After(time.Minute):
			t.Fatal("nothing is measured")
		}
	}
	if err := os.WriteFile(filepath.Join(tc.TaskDir, "local", "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := n.wait(tc); r.ExitCode != 4 {
		t.Errorf("result %+v", r)
	}
	eventually(t, "the last line comes", func() bool { return n.printed(tc) == "one\ntwo\n" })
	if err := n.d.RecoverTask(limit(t), h); err != nil {
		t.Errorf("it is known and cannot be recovered: %v", err)
	}
}
