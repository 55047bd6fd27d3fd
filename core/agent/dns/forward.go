// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dns

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// forwardEach is how long one resolver may take, and forwardAll how long all of them.
	forwardEach, forwardAll = 2 * time.Second, 5 * time.Second
	// udpSize is the largest answer over UDP that is asked for or given: one that passes
	// every network without fragments.
	udpSize = 1232
	// loopOption is the number of the option of EDNS that says which server passes a
	// question on, one of those for local use.
	loopOption = 65301
)

// forwarder passes questions on to other resolvers, in their order.
type forwarder struct {
	recursors *recursors
	flights   singleflight.Group
	own       []byte // names this process in loopOption
}

func newForwarder(r *recursors) *forwarder {
	own := make([]byte, 8)
	_, _ = rand.Read(own) // never fails
	return &forwarder{recursors: r, own: own}
}

// looped reports whether this server has asked the question itself. What no option tells is
// bounded by ask: a question that comes back while it is asked waits for itself until the
// time for it is over, and is not sent a second time.
func (f *forwarder) looped(r *dns.Msg) bool {
	if opt := r.IsEdns0(); opt != nil {
		for _, o := range opt.Option {
			if l, ok := o.(*dns.EDNS0_LOCAL); ok && l.Code == loopOption && bytes.Equal(l.Data, f.own) {
				return true
			}
		}
	}
	return false
}

// ask returns the answer of the first resolver that has one. Equal questions that come at the
// same time are asked once. The answer is shared, so it must not be changed.
func (f *forwarder) ask(ctx context.Context, r *dns.Msg) (*dns.Msg, error) {
	q := r.Question[0]
	do := false
	if opt := r.IsEdns0(); opt != nil {
		do = opt.Do()
	}
	key := fmt.Sprintf("%s %d %d %t %t", strings.ToLower(q.Name), q.Qtype, q.Qclass, do, r.CheckingDisabled)
	done := f.flights.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), forwardAll)
		defer cancel()
		return f.askAll(ctx, q, do, r.CheckingDisabled)
	})
	select {
	case got := <-done:
		if got.Err != nil {
			return nil, got.Err
		}
		return got.Val.(*dns.Msg), nil
	case <-ctx.Done():
		return nil, errdefs.Unavailablef("no resolver has answered about %s: %w", q.Name, ctx.Err())
	}
}

func (f *forwarder) askAll(ctx context.Context, q dns.Question, do, unchecked bool) (*dns.Msg, error) {
	ask := &dns.Msg{MsgHdr: dns.MsgHdr{RecursionDesired: true, CheckingDisabled: unchecked}, Question: []dns.Question{q}}
	ask.SetEdns0(udpSize, do)
	opt := ask.IsEdns0()
	opt.Option = append(opt.Option, &dns.EDNS0_LOCAL{Code: loopOption, Data: f.own})
	err := errdefs.FailedPreconditionf("no resolver is known that could answer about %s; set dns { recursors }", q.Name)
	var weak *dns.Msg
	for _, to := range f.recursors.list() {
		got, failed := exchange(ctx, ask, to)
		switch {
		case failed != nil:
			err = failed
		case got.Rcode == dns.RcodeServerFailure || got.Rcode == dns.RcodeRefused || got.Rcode == dns.RcodeNotImplemented:
			weak = got // another may know
		default:
			return got, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if weak != nil {
		return weak, nil
	}
	return nil, err
}

// exchange asks one resolver, over TCP if its answer is too long for UDP.
func exchange(ctx context.Context, ask *dns.Msg, to netip.AddrPort) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, forwardEach)
	defer cancel()
	var got *dns.Msg
	for _, network := range []string{"udp", "tcp"} {
		m := ask.Copy()
		m.Id = dns.Id()
		client := dns.Client{Net: network, Dialer: &net.Dialer{}}
		answer, _, err := client.ExchangeContext(ctx, m, to.String())
		if err != nil {
			if got != nil { // the short answer is better than none
				return got, nil
			}
			return nil, errdefs.Unavailablef("ask the resolver %s: %w", to, err)
		}
		if !answers(answer, ask) {
			return nil, errdefs.Unavailablef("the resolver %s answers another question", to)
		}
		if got = answer; !got.Truncated {
			break
		}
	}
	return got, nil
}

// answers reports whether a message is the answer to a question.
func answers(got, ask *dns.Msg) bool {
	if !got.Response || len(got.Question) != 1 {
		return false
	}
	g, q := got.Question[0], ask.Question[0]
	return strings.EqualFold(g.Name, q.Name) && g.Qtype == q.Qtype && g.Qclass == q.Qclass
}
