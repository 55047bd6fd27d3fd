// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/propose"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// mostForwarded limits the number of HTTP requests that this server has open at the
	// leader. Blocking queries wait on the server that the client asks, so these are short.
	mostForwarded = 256
	// forwardWait is how long a request waits for its turn.
	forwardWait = 10 * time.Second
)

// Headers between servers.
const (
	// headerBy names the server that forwards a request. Who receives it answers it, or
	// refuses it if it does not lead.
	headerBy = "X-Drover-Forwarded-By"
	// headerReason is the reason code of an error: see propose.ReasonNotLeader.
	headerReason = "X-Drover-Reason"
)

// Do lets the leader answer an HTTP request. If this server leads, it calls here, which may
// write to w, and returns its value. Otherwise it forwards the request and copies the
// leader's answer to w. A request that changes nothing (repeatable) is also sent again if
// the leader is lost before it answers.
func (p *Peers) Do(w http.ResponseWriter, r *http.Request, repeatable bool, here func(*http.Request) (any, error)) (any, error) {
	if r.Header.Get(headerBy) != "" {
		return p.answer(w, r, here)
	}
	body := p.keep(r)
	defer body.release()
	var value any
	err := p.lead(r.Context(), func(ctx context.Context) (err error) {
		again, err := body.request(r.WithContext(ctx))
		if err == nil {
			value, err = here(again)
		}
		return err
	}, func(ctx context.Context, to leader) error {
		again, err := body.request(r.WithContext(ctx))
		if err != nil {
			return err
		}
		err = p.forward(w, again, to, repeatable)
		switch {
		case err == nil || propose.NotLeader(err):
			return err
		case r.Context().Err() != nil:
			return r.Context().Err()
		case body.failed() != nil:
			return body.failed()
		case repeatable && !errdefs.IsResourceExhausted(err):
			return errNotSent{err}
		}
		return err
	})
	return value, err
}

// answer answers a request that another server has sent to this one as the leader.
func (p *Peers) answer(w http.ResponseWriter, r *http.Request, here func(*http.Request) (any, error)) (any, error) {
	var value any
	err := elsewhere()
	if p.Leads() {
		ctx, wrote := propose.Track(r.Context())
		value, err = here(r.WithContext(ctx))
		if propose.NotLeader(err) && wrote() {
			err = errdefs.New(errdefs.Unavailable, unknownOutcome{err})
		}
	}
	if propose.NotLeader(err) {
		w.Header().Set(headerReason, propose.ReasonNotLeader)
	}
	return value, err
}

// forward sends a request to the leader and copies its answer. After an error, nothing was
// written to w.
func (p *Peers) forward(w http.ResponseWriter, r *http.Request, to leader, repeatable bool) error {
	leave, err := p.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	var failure error
	ctx, answered, stop := p.whileLeading(context.WithValue(r.Context(), clientKey{}, to.Client), to)
	defer stop()
	(&httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			pr.SetURL(&url.URL{Scheme: "http", Host: "leader"}) // the host name is not used
			pr.Out.Host = pr.In.Host
			pr.Out.Header["X-Forwarded-For"] = pr.In.Header["X-Forwarded-For"]
			pr.SetXForwarded()
			pr.Out.Header.Set(headerBy, p.cfg.ID)
			pr.Out.Header.Set("Accept-Encoding", "identity") // the server that the client asked compresses
		},
		Transport:     p.http,
		FlushInterval: -1, // flush after each write, so that streams are not delayed
		ErrorLog:      p.logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		ModifyResponse: func(resp *http.Response) error {
			if reason := resp.Header.Get(headerReason); reason != "" {
				return errdefs.WithReason(errdefs.Unavailablef("the server at %s did not answer as the leader", to), reason)
			}
			answered()
			p.took(w.Header(), resp.Header)
			return nil
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) { failure = err },
	}).ServeHTTP(w, r.WithContext(ctx))
	switch {
	case failure == nil || propose.NotLeader(failure):
		return failure
	case errors.Is(context.Cause(ctx), errDeposed):
		failure = errDeposed
	default:
		p.logger.Debug("a request to the leader failed", "method", r.Method, "path", r.URL.Path, "error", failure)
	}
	if repeatable {
		return errdefs.Unavailablef("the leader at %s was lost before it answered; ask again: %w", to, failure)
	}
	return errdefs.Unavailablef("the leader at %s was lost before it answered, so the outcome is unknown; read before you retry: %w", to, failure)
}

// took notes an answer of the leader and removes headers that this server's own door has
// set already. Warnings of both are kept.
func (p *Peers) took(own, theirs http.Header) {
	if index, err := strconv.ParseUint(theirs.Get("X-Nomad-Index"), 10, 64); err == nil {
		p.saw(index)
	}
	for name := range own {
		if name != "X-Drover-Warning" {
			delete(theirs, name)
		}
	}
}

// enter waits for the turn of a request.
func (p *Peers) enter(ctx context.Context) (leave func(), err error) {
	leave = func() { <-p.open }
	select {
	case p.open <- struct{}{}:
		return leave, nil
	default:
	}
	select {
	case p.open <- struct{}{}:
		return leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(forwardWait):
		return nil, errdefs.ResourceExhaustedf("%d requests of this server wait for the leader at this moment, and not more; try again", mostForwarded)
	}
}

// clientKey is the context key of the connection over which a request is sent.
type clientKey struct{}

// transport sends requests over the connections between servers. Each request has a stream
// of its own, so that net/http never repeats one on its own account.
func (p *Peers) transport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			leader, ok := ctx.Value(clientKey{}).(*rpc.Client)
			if !ok {
				return nil, errdefs.Internalf("a request to another server names none")
			}
			conn, err := leader.DialHTTP(ctx)
			if err != nil {
				return nil, errNotSent{fmt.Errorf("reach the leader at %s: %w", leader, err)}
			}
			return conn, nil
		},
		DisableKeepAlives:  true,
		DisableCompression: true,
	}
}
