// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package session

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

const tokenKey = "node/token"

// askAgain is when a node asks again that got no identity.
const askAgain = time.Minute

// token is the token that the node sends with its registrations: the identity that servers
// gave to it, or until then its operator's introduction. The servers check it; the node
// does not.
type token struct {
	mu       sync.Mutex
	intro    string
	identity string
	renewAt  time.Time     // when to ask for a new identity; zero if there is none
	anew     bool          // an operator wants a new one
	changed  chan struct{} // closed when there is a new identity
}

func (k *token) load(ctx context.Context, store Store, intro string) error {
	k.intro, k.changed = intro, make(chan struct{})
	body, err := store.Get(ctx, tokenKey)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	k.take(string(body))
	return nil
}

// take makes an identity the node's own. A part of its last third is chosen at random, so
// that nodes that registered together do not renew together.
func (k *token) take(identity string) {
	k.identity, k.renewAt = identity, time.Time{}
	c, err := claimsOf(identity)
	if err != nil {
		return
	}
	issued, until := timeIn(c, "iat"), timeIn(c, "exp")
	if life := until.Sub(issued); life > 0 {
		k.renewAt = issued.Add(life*2/3 + time.Duration(rand.Float64()*float64(life)/6))
	}
}

// received stores a new identity.
func (k *token) received(ctx context.Context, store Store, identity string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if identity == "" {
		if k.identity == "" { // a new cluster has no key yet, or the servers are older
			k.renewAt = time.Now().Add(askAgain)
		}
		return nil
	}
	if err := store.Put(ctx, tokenKey, []byte(identity)); err != nil {
		return err
	}
	k.take(identity)
	k.anew = false
	close(k.changed)
	k.changed = make(chan struct{})
	return nil
}

// shown is what the node shows now.
func (k *token) shown() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.anew:
		return ""
	case k.identity != "":
		return k.identity
	}
	return k.intro
}

// due reports whether the node should ask for a new identity.
func (k *token) due(now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.anew || !k.renewAt.IsZero() && !now.Before(k.renewAt)
}

// IdentityClaims returns the claims of the node's identity. NotFound: it has none.
func (s *Session) IdentityClaims() (map[string]any, error) {
	s.token.mu.Lock()
	identity := s.token.identity
	s.token.mu.Unlock()
	if identity == "" {
		return nil, errdefs.NotFoundf("this node has no identity: it has not registered yet, or its servers give none")
	}
	return claimsOf(identity)
}

// RenewIdentity has servers give the node a new identity, and returns when it is there.
func (s *Session) RenewIdentity(ctx context.Context) error {
	s.token.mu.Lock()
	s.token.anew = true
	changed := s.token.changed
	s.token.mu.Unlock()
	s.Touch()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return errdefs.Unavailablef("the node has asked for a new identity and has none yet; it keeps asking: %w", ctx.Err())
	}
}

// claimsOf returns the content of a token without verifying it.
func claimsOf(token string) (map[string]any, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errdefs.Internalf("the identity of this node is not a token of three parts")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	var out map[string]any
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	if err != nil {
		return nil, errdefs.Internalf("read the identity of this node: %w", err)
	}
	return out, nil
}

// timeIn returns a time of a token; zero if it has none.
func timeIn(claims map[string]any, name string) time.Time {
	if at, ok := claims[name].(float64); ok {
		return time.Unix(int64(at), 0)
	}
	return time.Time{}
}
