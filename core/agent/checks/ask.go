// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/drover-project/drover/core/model"
)

// Target is a check with everything that is needed to run it: its strings are
// interpolated, and its address is known.
type Target struct {
	Service string // its name
	Check   *model.ServiceCheck
	Address string // HOST:PORT
	// Netns is the path of the network namespace from which the address is reached; "" is
	// the agent's own.
	Netns string
	// Script runs the command of a check of type script inside its task.
	Script func(ctx context.Context) (exitCode int, output string, err error)
}

// Bounds of what a check reads and keeps.
const (
	maxOutput    = 512
	maxHeader    = 64 << 10
	maxMessage   = 64 << 10
	maxRedirects = 5
)

// cut shortens a text that is kept, and makes it valid UTF-8.
func cut(s string) string {
	if len(s) > maxOutput {
		s = s[:maxOutput]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) {
			s = s[:len(s)-1]
		}
	}
	return strings.ToValidUTF8(strings.TrimSpace(s), "?")
}

// Ask runs a check once. It returns soon after ctx ends.
func Ask(ctx context.Context, t Target) Outcome {
	var o Outcome
	switch strings.ToLower(t.Check.Type) {
	case "http":
		o = askHTTP(ctx, t)
	case "tcp":
		o = askTCP(ctx, t)
	case "grpc":
		o = askGRPC(ctx, t)
	case "script":
		o = askScript(ctx, t)
	default:
		o = Outcome{Status: Failure, Output: fmt.Sprintf("this node cannot run checks of type %q; upgrade its agent", t.Check.Type)}
	}
	if o.Status == Failure && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		o.Output = fmt.Sprintf("no answer within the timeout of %s: %s", t.Check.Timeout, o.Output)
	}
	return o
}

func failed(err error) Outcome { return Outcome{Status: Failure, Output: err.Error()} }

func askTCP(ctx context.Context, t Target) Outcome {
	if err := touch(ctx, t.Netns, t.Address); err != nil {
		return failed(err)
	}
	return Outcome{Status: Success, Output: "nomad: tcp ok"}
}

func tlsOf(c *model.ServiceCheck) *tls.Config {
	return &tls.Config{InsecureSkipVerify: c.TLSSkipVerify, ServerName: c.TLSServerName}
}

// request makes the request of an http check.
func request(ctx context.Context, t Target) (*http.Request, error) {
	c, scheme := t.Check, "http"
	if strings.EqualFold(c.Protocol, "https") {
		scheme = "https"
	}
	method := c.Method
	if method == "" {
		method = http.MethodGet
	}
	var body io.Reader
	if c.Body != "" {
		body = strings.NewReader(c.Body)
	}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), scheme+"://"+t.Address+"/"+strings.TrimPrefix(c.Path, "/"), body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	for name, values := range c.Header {
		req.Header[http.CanonicalHeaderKey(name)] = values
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}

func askHTTP(ctx context.Context, t Target) Outcome {
	req, err := request(ctx, t)
	if err != nil {
		return failed(err)
	}
	transport := &http.Transport{
		DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader,
		ForceAttemptHTTP2: true, // some servers with TLS speak nothing else
		// Not the context that the transport gives: with that, connections and TLS handshakes
		// that nobody answers go on after the check, for minutes or for ever.
		DialContext: func(_ context.Context, network, address string) (net.Conn, error) {
			return dialFor(ctx, t.Netns, network, address)
		},
	}
	if req.URL.Scheme == "https" || strings.EqualFold(t.Check.Protocol, "https") {
		transport.TLSClientConfig = tlsOf(t.Check)
	}
	client := http.Client{Transport: transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects, the last to %s", maxRedirects, next.URL.Redacted())
		}
		return nil
	}}
	answer, err := client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode >= 200 && answer.StatusCode <= 299 {
		return Outcome{Status: Success, Code: answer.StatusCode, Output: "nomad: http ok"}
	}
	why := "answer " + answer.Status
	if answer.Request.URL.Host == req.URL.Host { // the body of another host must not be shown to readers of this alloc
		if said, _ := io.ReadAll(io.LimitReader(answer.Body, maxOutput)); len(said) > 0 {
			why += ": " + string(said)
		}
	}
	return Outcome{Status: Failure, Code: answer.StatusCode, Output: why}
}

// afterwards is how much longer than its check a connection may live: the check is ended by its
// context, which says why, and not by its connection.
const afterwards = time.Second

// dialFor makes a connection that ends soon after the deadline of a context.
func dialFor(ctx context.Context, netns, network, address string) (net.Conn, error) {
	conn, err := dial(ctx, netns, network, address)
	if err != nil {
		return nil, err
	}
	if end, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(end.Add(afterwards)); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
	}
	return conn, nil
}

func askGRPC(ctx context.Context, t Target) Outcome {
	creds := insecure.NewCredentials()
	if t.Check.GRPCUseTLS {
		creds = credentials.NewTLS(tlsOf(t.Check))
	}
	conn, err := grpc.NewClient("passthrough:///"+t.Address, grpc.WithTransportCredentials(creds), grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)), grpc.WithMaxHeaderListSize(maxHeader),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, t.Netns, "tcp", address) }))
	if err != nil {
		return failed(err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: t.Check.GRPCService})
	switch {
	case err != nil:
		s := status.Convert(err)
		return Outcome{Status: Failure, Output: fmt.Sprintf("grpc %s: %s", s.Code(), s.Message())}
	case answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING:
		return Outcome{Status: Failure, Output: "grpc health status " + answer.GetStatus().String()}
	}
	return Outcome{Status: Success, Output: "nomad: grpc ok"}
}

// askScript runs a command in the task: exit code 0 is a success, 1 a warning, and every
// other a failure. Of a command that does not end the output says where it was.
func askScript(ctx context.Context, t Target) Outcome {
	code, output, err := t.Script(ctx)
	switch {
	case err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		if output == "" {
			output = "the script has printed nothing"
		}
		return Outcome{Status: Failure, Output: output}
	case err != nil:
		return failed(fmt.Errorf("run the script: %w", err))
	case code == 0:
		return Outcome{Status: Success, Output: output}
	case code == 1:
		return Outcome{Status: Warning, Output: output}
	}
	return Outcome{Status: Failure, Output: fmt.Sprintf("exit code %d: %s", code, output)}
}
