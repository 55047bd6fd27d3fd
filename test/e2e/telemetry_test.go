// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/test/e2e/harness"
)

func TestMetricsAreSentToWhatTheConfigurationNames(t *testing.T) {
	a := newAgent(t)
	statsd, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer statsd.Close()
	var collected atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/metrics" && r.Header.Get("X-Key") == "k" {
			collected.Add(1)
		}
	}))
	defer collector.Close()
	a.Configure(fmt.Sprintf(`
telemetry {
  collection_interval = "200ms"
  disable_hostname    = true
  datadog_address     = %q
  datadog_tags        = ["team:core"]
  otlp_endpoint       = %q
  otlp_headers        = { "x-key" = "k" }
}
`, statsd.LocalAddr(), collector.URL))
	a.start()
	if err := statsd.SetReadDeadline(time.Now().Add(harness.Patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 65536)
	for seen := false; !seen; {
		n, _, err := statsd.ReadFrom(buf)
		if err != nil {
			t.Fatalf("no figure of raft came: %v", err)
		}
		for line := range strings.SplitSeq(string(buf[:n]), "\n") {
			seen = seen || strings.HasPrefix(line, "nomad.raft.appliedIndex:") && strings.HasSuffix(line, "|g|#team:core")
		}
	}
	a.Eventually(20*time.Second, "the collector gets sets", func() bool { return collected.Load() > 1 })
}
