// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package client is the Go client of the HTTP API that the command line uses. It owns
// addresses, tokens, TLS and the decoding of answers; its types come from core/model and
// core/api. It never retries. Only cmd/drover and tests may import it.
package client

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultAddress is the default address of an agent.
const DefaultAddress = "http://127.0.0.1:4646"

// Config says how to reach an agent.
type Config struct {
	Address   string // http://, https:// or unix:///PATH
	Token     string
	HTTPAuth  string // NAME:PASSWORD of basic authentication, which a proxy before the agent may want
	Region    string
	Namespace string // "" is the default namespace, "*" means all

	CACert, CAPath        string // file and directory of CA certificates to trust
	ClientCert, ClientKey string // files of the client certificate and its key
	TLSServerName         string
	SkipVerify            bool

	// Warn is called with each warning about a part of the request that has no effect;
	// nil ignores warnings.
	Warn func(text string)
}

// FromEnv reads a Config from the variables DROVER_*, or NOMAD_* if these are not set.
// get looks up a variable, like os.Getenv.
func FromEnv(get func(name string) string) Config {
	either := func(name string) string {
		if v := get("DROVER_" + name); v != "" {
			return v
		}
		return get("NOMAD_" + name)
	}
	skip, _ := strconv.ParseBool(either("SKIP_VERIFY")) // if unset or invalid, verify certificates
	return Config{Address: either("ADDR"), Token: either("TOKEN"), HTTPAuth: either("HTTP_AUTH"), Region: either("REGION"), Namespace: either("NAMESPACE"),
		CACert: either("CACERT"), CAPath: either("CAPATH"), ClientCert: either("CLIENT_CERT"), ClientKey: either("CLIENT_KEY"),
		TLSServerName: either("TLS_SERVER_NAME"), SkipVerify: skip}
}

// Client talks to one agent. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string // scheme://host
	http *http.Client
	dial func(ctx context.Context) (net.Conn, error) // for websockets
	// header is sent with every request.
	header http.Header
}

// New returns a client. It does not connect.
func New(cfg Config) (*Client, error) {
	if cfg.Address == "" {
		cfg.Address = DefaultAddress
	}
	if !strings.Contains(cfg.Address, "://") {
		cfg.Address = "http://" + cfg.Address
	}
	u, err := url.Parse(cfg.Address)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("agent address %q is not a URL; write http://HOST:PORT: %w", cfg.Address, err)
	}
	if u.User != nil {
		password, _ := u.User.Password() // none is as good as an empty one
		cfg.HTTPAuth, cfg.Address = u.User.Username()+":"+password, u.Redacted()
	}
	tlsCfg, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	c := &Client{cfg: cfg, base: u.Scheme + "://" + u.Host}
	network, addr := "tcp", u.Host
	switch u.Scheme {
	case "unix":
		c.base, network, addr = "http://drover", "unix", u.Path
	case "http", "https":
		if u.Port() == "" {
			addr = net.JoinHostPort(u.Hostname(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
		}
	default:
		return nil, errdefs.InvalidArgumentf("agent address %q has the scheme %q; use http, https or unix", cfg.Address, u.Scheme)
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	tr := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		TLSClientConfig:     tlsCfg,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     time.Minute,
		ForceAttemptHTTP2:   true,
		DialContext: func(ctx context.Context, n, a string) (net.Conn, error) {
			if network == "unix" {
				return dialer.DialContext(ctx, network, addr)
			}
			return dialer.DialContext(ctx, n, a)
		},
	}
	c.http = &http.Client{Transport: tr}
	c.dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, addr)
		if err != nil || u.Scheme != "https" {
			return conn, err
		}
		wrapped := tlsCfg.Clone()
		if wrapped.ServerName == "" {
			wrapped.ServerName = u.Hostname()
		}
		return tls.Client(conn, wrapped), nil
	}
	return c, nil
}

func (cfg Config) tls() (*tls.Config, error) {
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: cfg.TLSServerName, InsecureSkipVerify: cfg.SkipVerify} // only if the user asks
	var pems [][]byte
	if cfg.CACert != "" {
		b, err := os.ReadFile(cfg.CACert)
		if err != nil {
			return nil, fmt.Errorf("read the CA certificate: %w", err)
		}
		pems = append(pems, b)
	}
	if cfg.CAPath != "" {
		entries, err := os.ReadDir(cfg.CAPath)
		if err != nil {
			return nil, fmt.Errorf("read the folder of CA certificates: %w", err)
		}
		for _, e := range entries {
			b, err := os.ReadFile(cfg.CAPath + "/" + e.Name())
			if err != nil {
				return nil, fmt.Errorf("read a CA certificate: %w", err)
			}
			pems = append(pems, b)
		}
	}
	if len(pems) > 0 {
		out.RootCAs = x509.NewCertPool()
		for _, b := range pems {
			if !out.RootCAs.AppendCertsFromPEM(b) {
				return nil, errdefs.InvalidArgumentf("a CA file holds no PEM certificate; check -ca-cert and -ca-path")
			}
		}
	}
	if cfg.ClientCert != "" || cfg.ClientKey != "" {
		pair, err := tls.LoadX509KeyPair(cfg.ClientCert, cfg.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate and key: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Address returns the agent's address.
func (c *Client) Address() string { return c.cfg.Address }

// Namespace returns the namespace of requests, "default" if none was set.
func (c *Client) Namespace() string {
	if c.cfg.Namespace == "" {
		return "default"
	}
	return c.cfg.Namespace
}

// WithNamespace returns a client for another namespace over the same connections.
func (c *Client) WithNamespace(ns string) *Client {
	d := *c
	d.cfg.Namespace = ns
	return &d
}

// Query are the parameters of a read. The zero value reads everything and does not
// block.
type Query struct {
	Prefix    string
	Filter    string
	PerPage   int
	NextToken string
	Reverse   bool
	Stale     bool
	WaitIndex uint64        // block until the index is higher than this
	WaitTime  time.Duration // at most this long
	Params    url.Values    // other parameters of the route
}

// Meta is the metadata of an answer.
type Meta struct {
	Index       uint64
	KnownLeader bool
	NextToken   string
	// History says which server's history the answer includes, and since when.
	History string
}

func (c *Client) params(q *Query) url.Values {
	v := url.Values{}
	if c.cfg.Region != "" {
		v.Set("region", c.cfg.Region)
	}
	if c.cfg.Namespace != "" {
		v.Set("namespace", c.cfg.Namespace)
	}
	if q == nil {
		return v
	}
	set := func(name, val string, on bool) {
		if on {
			v.Set(name, val)
		}
	}
	set("prefix", q.Prefix, q.Prefix != "")
	set("filter", q.Filter, q.Filter != "")
	set("per_page", strconv.Itoa(q.PerPage), q.PerPage > 0)
	set("next_token", q.NextToken, q.NextToken != "")
	set("reverse", "true", q.Reverse)
	set("stale", "", q.Stale)
	set("index", strconv.FormatUint(q.WaitIndex, 10), q.WaitIndex > 0)
	set("wait", q.WaitTime.String(), q.WaitTime > 0)
	for k, vals := range q.Params {
		v[k] = vals
	}
	return v
}

// Error is an answer with an error status. Its class follows from the status.
type Error struct {
	Status int
	Text   string
}

func (e *Error) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the agent answered with status %d", e.Status)
	}
	return fmt.Sprintf("the agent answered with status %d: %s", e.Status, e.Text)
}

func classOf(status int) errdefs.Class {
	switch status {
	case http.StatusNotFound:
		return errdefs.NotFound
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return errdefs.InvalidArgument
	case http.StatusForbidden, http.StatusUnauthorized:
		return errdefs.PermissionDenied
	case http.StatusConflict:
		return errdefs.Conflict
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return errdefs.ResourceExhausted
	case http.StatusNotImplemented, http.StatusMethodNotAllowed:
		return errdefs.Unimplemented
	}
	return errdefs.Internal
}

// Text returns the agent's own error text if err is an answer of the agent, otherwise
// the text of err.
func Text(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Text != "" {
		return strings.Replace(err.Error(), e.Error(), e.Text, 1)
	}
	return err.Error()
}

// open sends a request and returns the answer if it is a success.
func (c *Client) open(ctx context.Context, method, path string, params url.Values, body any) (*http.Response, error) {
	var r io.Reader
	if stream, ok := body.(io.Reader); ok {
		r, body = stream, nil
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		r = bytes.NewReader(b)
	}
	u := c.base + path
	if enc := params.Encode(); enc != "" {
		u += "?" + enc
	}
	req, err := http.NewRequestWithContext(ctx, method, u, r)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("make a request for %s: %w", path, err)
	}
	maps.Copy(req.Header, c.header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, c.unreachable(err)
	}
	c.warn(resp)
	if resp.StatusCode >= 300 {
		defer resp.Body.Close()
		if c.wantsTLS(resp) {
			return nil, c.errWantsTLS()
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20)) // a partial text is still useful
		return nil, errdefs.New(classOf(resp.StatusCode), &Error{Status: resp.StatusCode, Text: strings.TrimSpace(string(text))})
	}
	return resp, nil
}

// authorize adds what says who asks.
func (c *Client) authorize(h http.Header) {
	if c.cfg.Token != "" {
		h.Set("X-Nomad-Token", c.cfg.Token)
	}
	if c.cfg.HTTPAuth != "" {
		name, password, _ := strings.Cut(c.cfg.HTTPAuth, ":")
		h.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(name+":"+password)))
	}
}

func (c *Client) warn(resp *http.Response) {
	if c.cfg.Warn == nil {
		return
	}
	for _, text := range resp.Header.Values("X-Drover-Warning") {
		c.cfg.Warn(text)
	}
}

// answerWithin is the time limit of an answer, without the time of a blocking query.
const answerWithin = 2 * time.Minute

// waitOf returns how long the parameters may make the agent wait.
func waitOf(params url.Values) time.Duration {
	d, _ := time.ParseDuration(params.Get("wait")) // 0 if not set
	if d == 0 && params.Get("index") != "" {
		d = 10 * time.Minute // the agent's own limit
	}
	return d
}

// call sends a request and decodes the answer into out, if that is not nil.
func (c *Client) call(ctx context.Context, method, path string, params url.Values, body, out any) (Meta, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerWithin+waitOf(params),
		errdefs.DeadlineExceededf("the agent at %s took longer than %s to answer %s %s", c.cfg.Address, answerWithin, method, path))
	defer cancel()
	resp, err := c.open(ctx, method, path, params, body)
	if err != nil {
		return Meta{}, err
	}
	defer resp.Body.Close()
	index, _ := strconv.ParseUint(resp.Header.Get("X-Nomad-Index"), 10, 64) // not set on some routes
	meta := Meta{Index: index, KnownLeader: resp.Header.Get("X-Nomad-KnownLeader") == "true", NextToken: resp.Header.Get("X-Nomad-NextToken"), History: resp.Header.Get("X-Drover-History")}
	if out == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // so that the connection is reused
		return meta, nil
	}
	if err := decode(resp.Body, out); err != nil {
		return meta, fmt.Errorf("decode the answer to %s %s: %w", method, path, err)
	}
	return meta, nil
}

// Get reads a path into out, for routes without a method of their own.
func (c *Client) Get(ctx context.Context, path string, q *Query, out any) (Meta, error) {
	return c.call(ctx, http.MethodGet, path, c.params(q), nil, out)
}

// Put sends body to a path and decodes the answer into out (nil: ignored).
func (c *Client) Put(ctx context.Context, path string, q *Query, body, out any) (Meta, error) {
	return c.call(ctx, http.MethodPut, path, c.params(q), body, out)
}

// Delete deletes a path and decodes the answer into out (nil: ignored).
func (c *Client) Delete(ctx context.Context, path string, q *Query, body, out any) (Meta, error) {
	return c.call(ctx, http.MethodDelete, path, c.params(q), body, out)
}

// Answer is an undecoded answer. The caller closes Body.
type Answer struct {
	Status int
	Header http.Header
	Body   io.ReadCloser
}

// Request is a request that a user composed.
type Request struct {
	Method, Path string
	Params       url.Values // in addition to the client's region and namespace
	Header       http.Header
	Body         io.Reader // may be nil
	Size         int64     // size of Body if it cannot be determined from Body; 0 means unknown
}

// URL returns the URL of a request.
func (c *Client) URL(r *Request) string {
	params := c.params(&Query{Params: r.Params})
	if len(params) == 0 {
		return c.base + r.Path
	}
	return c.base + r.Path + "?" + params.Encode()
}

// Do sends a request and returns the agent's answer, including errors.
func (c *Client) Do(ctx context.Context, r *Request) (*Answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.Method, c.URL(r), r.Body)
	if err != nil {
		return nil, errdefs.InvalidArgumentf("make a request for %s: %w", r.Path, err)
	}
	for name, values := range r.Header {
		req.Header[name] = values
	}
	if r.Size > 0 {
		req.ContentLength = r.Size
	}
	c.authorize(req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(err)
	}
	c.warn(resp)
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: resp.Body}, nil
}

// Raw returns the undecoded body of a path. The caller closes it.
func (c *Client) Raw(ctx context.Context, path string, q *Query) (io.ReadCloser, error) {
	resp, err := c.open(ctx, http.MethodGet, path, c.params(q), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

func get[T any](ctx context.Context, c *Client, path string, q *Query) (T, Meta, error) {
	var out T
	meta, err := c.Get(ctx, path, q, &out)
	return out, meta, err
}

func put[T any](ctx context.Context, c *Client, path string, q *Query, body any) (*T, error) {
	out := new(T)
	if _, err := c.Put(ctx, path, q, body, out); err != nil {
		return nil, err
	}
	return out, nil
}
