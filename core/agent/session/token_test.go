// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/session"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

// keptTokens is a Store in memory.
type keptTokens map[string][]byte

func (k keptTokens) Get(_ context.Context, key string) ([]byte, error) {
	if v, ok := k[key]; ok {
		return v, nil
	}
	return nil, errdefs.NotFoundf("nothing under %s", key)
}

func (k keptTokens) Put(_ context.Context, key string, v []byte) error { k[key] = v; return nil }

// giver is a server that gives identities of an hour to nodes that show none, or an old
// one.
type giver struct {
	rpc.Servers
	shown chan string // at each registration
	given int
	last  string // what it gave, and when
	at    time.Time
}

func (g *giver) Register(_ context.Context, n *model.Node) (rpc.Lease, error) {
	g.shown <- n.Token
	out := rpc.Lease{TTL: 9 * time.Second, ClusterID: "c"}
	if n.Token != g.last || time.Since(g.at) > 30*time.Minute {
		g.given++
		now := time.Now().Unix()
		g.at = time.Now()
		g.last = "h." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"iat":%d,"exp":%d,"jti":"%d"}`, now, now+3600, g.given)) + ".s"
		out.Identity = g.last
	}
	return out, nil
}

func (g *giver) Beat(context.Context, rpc.Identity) (rpc.Lease, error) {
	return rpc.Lease{TTL: 9 * time.Second, ClusterID: "c"}, nil
}

func (g *giver) Attach(ctx context.Context, _ rpc.Identity, _ rpc.Node, _ func(*rpc.Assignments) error) error {
	<-ctx.Done()
	return ctx.Err()
}

type noUpdates struct{}

func (noUpdates) Retry()                       {}
func (noUpdates) Told(map[string]uint64, bool) {}

// begin runs a session; the function ends it.
func begin(t *testing.T, g *giver, store keptTokens) (*session.Session, func()) {
	t.Helper()
	s, err := session.New(t.Context(), session.Config{Servers: g, Store: store, NodeID: "n", Intro: "intro", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	return s, attend(t, s)
}

func attend(t *testing.T, s *session.Session) (end func()) {
	s.Bind(session.Parts{Node: func() *model.Node { return &model.Node{ID: "n"} }, Updates: noUpdates{}, Releases: func() {}})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { s.Run(ctx); close(over) }()
	return func() { cancel(); <-over }
}

func TestANodeShowsItsIntroductionUntilItHasAnIdentityWhichItRenewsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, store := &giver{shown: make(chan string, 100)}, keptTokens{}
		s, end := begin(t, g, store)
		if got := <-g.shown; got != "intro" {
			t.Errorf("first it shows %q", got)
		}
		synctest.Wait()
		if c, err := s.IdentityClaims(); err != nil || c["jti"] != "1" {
			t.Errorf("its identity is %v, %v", c, err)
		}
		time.Sleep(39 * time.Minute)
		if len(g.shown) != 0 {
			t.Error("it renews in the first two thirds")
		}
		time.Sleep(12 * time.Minute)
		if len(g.shown) != 1 {
			t.Fatalf("%d registrations in the last third", len(g.shown))
		}
		first := <-g.shown
		end()
		// The next agent shows what this one had.
		if _, end = begin(t, g, store); <-g.shown == first {
			t.Error("the new identity was not kept")
		}
		synctest.Wait()
		end()
	})
}

func TestAnOperatorHasANodeRenewItsIdentity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &giver{shown: make(chan string, 100)}
		s, end := begin(t, g, keptTokens{})
		defer end()
		<-g.shown
		synctest.Wait()
		if err := s.RenewIdentity(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-g.shown; got != "" {
			t.Errorf("it shows %q, so servers keep what it has", got)
		}
		if c, err := s.IdentityClaims(); err != nil || c["jti"] != "2" {
			t.Errorf("its identity is %v, %v", c, err)
		}
	})
}

func TestANodeWhoseServersGiveNoIdentitiesHasNone(t *testing.T) {
	s, err := session.New(t.Context(), session.Config{Servers: &giver{}, Store: keptTokens{}, NodeID: "n", Logger: hclog.NewNullLogger()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.IdentityClaims(); !errdefs.IsNotFound(err) {
		t.Error(err)
	}
}

// late is a server that gives an identity with the second registration.
type late struct {
	*giver
	asked int
}

func (l *late) Register(ctx context.Context, n *model.Node) (rpc.Lease, error) {
	if l.asked++; l.asked == 1 {
		return rpc.Lease{TTL: 9 * time.Second, ClusterID: "c"}, nil
	}
	return l.giver.Register(ctx, n)
}

func TestANodeThatGotNoIdentityAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &late{giver: &giver{shown: make(chan string, 100)}}
		s, err := session.New(t.Context(), session.Config{Servers: l, Store: keptTokens{}, NodeID: "n", Logger: hclog.NewNullLogger()})
		if err != nil {
			t.Fatal(err)
		}
		end := attend(t, s)
		defer end()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if c, err := s.IdentityClaims(); err != nil || l.asked != 2 {
			t.Errorf("%v after %d registrations: %v", c, l.asked, err)
		}
	})
}
