// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

// site answers as a service in a bad mood does.
func site() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /health", func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 10)
		n, _ := r.Body.Read(body)
		if r.Header.Get("X-A") != "b" || r.Host != "web.example" || string(body[:n]) != "ping" {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	mux.HandleFunc("/ok", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no database", http.StatusServiceUnavailable)
	})
	mux.HandleFunc("/to", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ok", http.StatusFound) })
	mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/circle", http.StatusFound) })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	return mux
}

func TestAnHTTPCheckAsksAsItSays(t *testing.T) {
	plain, secure := httptest.NewServer(site()), httptest.NewTLSServer(site())
	defer plain.Close()
	defer secure.Close()
	for name, c := range map[string]struct {
		check model.ServiceCheck
		tls   bool
		want  checks.Status
		code  int
		says  string
	}{
		"everything":       {model.ServiceCheck{Path: "/health", Method: "post", Body: "ping", Header: map[string][]string{"x-a": {"b"}, "host": {"web.example"}}}, false, checks.Success, 200, "nomad: http ok"},
		"any 2xx":          {model.ServiceCheck{Path: "ok"}, false, checks.Success, 204, "nomad: http ok"},
		"failure":          {model.ServiceCheck{Path: "/down"}, false, checks.Failure, 503, "503 Service Unavailable: no database"},
		"redirect":         {model.ServiceCheck{Path: "/to"}, false, checks.Success, 204, ""},
		"circle":           {model.ServiceCheck{Path: "/circle"}, false, checks.Failure, 0, "more than 5 redirects"},
		"endless body":     {model.ServiceCheck{Path: "/endless"}, false, checks.Failure, 500, "500"},
		"hangs":            {model.ServiceCheck{Path: "/hang"}, false, checks.Failure, 0, "no answer within the timeout of 200ms"},
		"tls":              {model.ServiceCheck{Path: "/ok", Protocol: "https"}, true, checks.Failure, 0, "certificate"},
		"tls, skip verify": {model.ServiceCheck{Path: "/ok", Protocol: "https", TLSSkipVerify: true, TLSServerName: "other.example"}, true, checks.Success, 204, ""},
	} {
		server := plain
		if c.tls {
			server = secure
		}
		c.check.Type, c.check.Timeout = "http", time.Minute
		if name == "hangs" {
			c.check.Timeout = 200 * time.Millisecond
		}
		o := ask(t, checks.Target{Check: &c.check, Address: server.Listener.Addr().String()})
		if o.Status != c.want || o.Code != c.code || !strings.Contains(o.Output, c.says) || len(o.Output) > 2048 {
			t.Errorf("%s: %+v", name, o)
		}
	}
}

func TestAServerThatSpeaksOnlyHTTP2IsAsked(t *testing.T) {
	server := httptest.NewUnstartedServer(site())
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP2(true)
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	check := &model.ServiceCheck{Type: "http", Protocol: "https", Path: "/ok", TLSSkipVerify: true, Timeout: time.Minute}
	if o := ask(t, checks.Target{Check: check, Address: server.Listener.Addr().String()}); o.Status != checks.Success || o.Code != http.StatusNoContent {
		t.Errorf("%+v", o)
	}
}

// What a check does not read must not be sent: a node would otherwise carry it each second.
func TestAGigabyteIsNeitherReadNorWaitedFor(t *testing.T) {
	for name, status := range map[string]int{"success": http.StatusOK, "failure": http.StatusInternalServerError, "redirect": http.StatusFound} {
		const whole = 1 << 30
		var sent atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/again")
			w.WriteHeader(status)
			for sent.Load() < whole {
				n, err := w.Write(make([]byte, 1<<20))
				sent.Add(int64(n))
				if err != nil {
					return
				}
			}
		}))
		o := ask(t, checks.Target{Check: &model.ServiceCheck{Type: "http", Path: "/", Timeout: time.Minute}, Address: server.Listener.Addr().String()})
		if o.Status != checks.Success && name == "success" || o.Status != checks.Failure && name != "success" || len(o.Output) > 2048 {
			t.Errorf("%s: %+v", name, o)
		}
		server.Close()                       // it waits for the handlers
		if n := sent.Load(); n > 8*(8<<20) { // what buffers of the kernel take, for each of six requests
			t.Errorf("%s: %d bytes were sent", name, n)
		}
	}
}

func TestNothingIsLeftOfACheckThatHasTimedOut(t *testing.T) {
	for _, protocol := range []string{"http", "https"} {
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		o := checks.Ask(ctx, checks.Target{Address: silent.Addr().String(), Check: &model.ServiceCheck{Type: "http", Path: "/", Protocol: protocol, TLSSkipVerify: true, Timeout: time.Second}})
		if o.Status != checks.Failure || !strings.Contains(o.Output, "no answer within the timeout") {
			t.Errorf("%s: %+v", protocol, o)
		}
		conn, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection stays open", protocol)
		}
	}
}

func ask(t *testing.T, target checks.Target) checks.Outcome {
	ctx, cancel := context.WithTimeout(t.Context(), target.Check.Timeout)
	defer cancel()
	return checks.Ask(ctx, target)
}

func TestATCPCheckConnects(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := checks.Target{Check: &model.ServiceCheck{Type: "tcp", Timeout: time.Minute}, Address: l.Addr().String()}
	if o := ask(t, target); o.Status != checks.Success || o.Output != "nomad: tcp ok" {
		t.Errorf("somebody listens: %+v", o)
	}
	l.Close()
	if o := ask(t, target); o.Status != checks.Failure || o.Output != fmt.Sprintf("dial tcp %s: connect: connection refused", target.Address) {
		t.Errorf("nobody listens: %+v", o)
	}
}

func TestAGRPCCheckAsksTheStandardHealthService(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, says := grpc.NewServer(), health.NewServer()
	grpc_health_v1.RegisterHealthServer(server, says)
	says.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	go server.Serve(l)
	defer server.Stop()
	for service, want := range map[string]string{"": "nomad: grpc ok", "shop": "grpc health status NOT_SERVING", "none": "grpc NotFound: unknown service"} {
		o := ask(t, checks.Target{Check: &model.ServiceCheck{Type: "grpc", GRPCService: service, Timeout: time.Minute}, Address: l.Addr().String()})
		if o.Output != want || (o.Status == checks.Success) != (service == "") {
			t.Errorf("service %q: %+v", service, o)
		}
	}
}

func TestTheExitCodeOfAScriptIsTheResult(t *testing.T) {
	for code, want := range map[int]checks.Status{0: checks.Success, 1: checks.Warning, 2: checks.Failure} {
		o := ask(t, checks.Target{Check: &model.ServiceCheck{Type: "script", Timeout: time.Minute}, Script: func(context.Context) (int, string, error) { return code, "said", nil }})
		if o.Status != want || !strings.Contains(o.Output, "said") {
			t.Errorf("exit code %d: %+v", code, o)
		}
	}
}

func TestTheOutputOfAScriptThatDoesNotEndSaysWhereItWas(t *testing.T) {
	for printed, want := range map[string]string{
		"wait for the database": "no answer within the timeout of 1ms: wait for the database",
		"":                      "no answer within the timeout of 1ms: the script has printed nothing",
	} {
		hangs := func(ctx context.Context) (int, string, error) { <-ctx.Done(); return 0, printed, ctx.Err() }
		o := ask(t, checks.Target{Check: &model.ServiceCheck{Type: "script", Timeout: time.Millisecond}, Script: hangs})
		if o.Status != checks.Failure || o.Output != want {
			t.Errorf("%+v, want %q", o, want)
		}
	}
}
