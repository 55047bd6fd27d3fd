// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nodetoken_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/auth/nodetoken"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// seeded derives keys from the ids of root keys.
type seeded struct{ secret string }

func (k seeded) NodeKey(root *model.RootKey) (ed25519.PrivateKey, error) {
	seed := sha256.Sum256([]byte(k.secret + root.KeyID))
	return ed25519.NewKeyFromSeed(seed[:]), nil
}

const key1 = "00000000-0000-0000-0000-0000000000b1"

var now = time.Unix(1_800_000_000, 0).UTC()

func view(t *testing.T, keys ...string) *state.View {
	t.Helper()
	store := state.New()
	machine := fsm.New(store, hclog.NewNullLogger())
	index := uint64(10)
	apply := func(c fsm.Command) {
		data, err := fsm.Encode(c)
		if err != nil {
			t.Fatal(err)
		}
		index++
		for _, answer := range machine.ApplyBatch([]fsm.Entry{{Index: index, Data: data}}) {
			if err, bad := answer.(error); bad && err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, id := range keys {
		apply(&fsm.UpsertRootKey{Key: &model.RootKey{KeyID: id, State: model.RootKeyActive, Algorithm: model.RootKeyAlgorithm, CreateTime: now.UnixNano(), Sealed: []byte("x")}})
	}
	apply(&fsm.UpsertNodePools{Pools: []*model.NodePool{{Name: "short", NodeIdentityTTL: time.Hour}}})
	return store.View()
}

func tokens(enforcement string) *nodetoken.Tokens {
	return nodetoken.New(nodetoken.Config{Keys: seeded{}, Region: "global", Enforcement: enforcement, NewID: func() string { return "id" }, Logger: hclog.NewNullLogger()})
}

func introduce(t *testing.T, k *nodetoken.Tokens, v *state.View, name, pool string, ttl time.Duration) string {
	t.Helper()
	out, err := k.Introduce(v.ActiveRootKey(), name, pool, ttl, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func node(token string) *model.Node {
	return &model.Node{ID: "n1", Name: "web-1", NodePool: "edge", Token: token}
}

func TestOnlyAnIntroducedNodeJoinsAStrictCluster(t *testing.T) {
	v, k := view(t, key1), tokens(nodetoken.Strict)
	foreign := nodetoken.New(nodetoken.Config{Keys: seeded{"other"}, Region: "global", NewID: func() string { return "" }})
	elsewhere := nodetoken.New(nodetoken.Config{Keys: seeded{}, Region: "eu", NewID: func() string { return "" }})
	good := introduce(t, k, v, "web-1", "edge", 0)
	for what, c := range map[string]struct {
		token string
		at    time.Time
		says  string
	}{
		"introduced by name and pool":                 {good, now, ""},
		"without restrictions":                        {introduce(t, k, v, "", "", 0), now, ""},
		"at the end of its time":                      {good, now.Add(nodetoken.DefaultTTL), ""},
		"from a server whose clock is a little ahead": {good, now.Add(-10 * time.Second), ""},
		"no token":              {"", now, "shows no token"},
		"garbage":               {"garbage", now, "not valid"},
		"another name":          {introduce(t, k, v, "web-2", "", 0), now, `name "web-2"`},
		"another pool":          {introduce(t, k, v, "", "core", 0), now, `pool "core"`},
		"expired":               {good, now.Add(nodetoken.DefaultTTL + time.Minute), "expired"},
		"another cluster's":     {introduce(t, foreign, v, "", "", 0), now, "signature"},
		"another region's":      {introduce(t, elsewhere, v, "", "", 0), now, "audience"},
		"a removed key's":       {introduce(t, k, view(t, "00000000-0000-0000-0000-0000000000b2"), "", "", 0), now, "not in the keyring"},
		"without its signature": {good[:strings.LastIndex(good, ".")+1], now, "not valid"},
		"unsigned":              {unsigned(good), now, "not valid"},
	} {
		err := k.Admit(v, node(c.token), c.at)
		if c.says == "" && err != nil || c.says != "" && (!errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "node intro create")) {
			t.Errorf("%s: %v", what, err)
		}
		for _, lax := range []string{"", nodetoken.None, nodetoken.Warn} {
			if err := tokens(lax).Admit(v, node(c.token), c.at); err != nil {
				t.Errorf("%s, with enforcement %q: %v", what, lax, err)
			}
		}
	}
}

// unsigned is a token that claims to need no signature.
func unsigned(token string) string {
	parts := strings.Split(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"`+key1+`"}`)) + "." + parts[1] + "."
}

func TestATokenLivesNoLongerThanOperatorsAllow(t *testing.T) {
	v, k := view(t, key1), tokens(nodetoken.Strict)
	for _, ttl := range []time.Duration{-time.Second, nodetoken.DefaultMax + time.Second} {
		if _, err := k.Introduce(v.ActiveRootKey(), "", "", ttl, now); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", ttl, err)
		}
	}
	long := introduce(t, k, v, "", "", nodetoken.DefaultMax)
	if err := k.Admit(v, node(long), now.Add(nodetoken.DefaultMax-time.Second)); err != nil {
		t.Error(err)
	}
}

func identity(t *testing.T, k *nodetoken.Tokens, v *state.View, n *model.Node, shown string, at time.Time) string {
	t.Helper()
	out, err := k.Identity(v, n, shown, at)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnIdentityIsRenewedInTheSecondHalfOfItsTime(t *testing.T) {
	v, k := view(t, key1), tokens("")
	n := node("")
	for _, c := range []struct {
		pool string
		ttl  time.Duration
	}{{"edge", nodetoken.IdentityTTL}, {"short", time.Hour}} {
		n.NodePool = c.pool
		first := identity(t, k, v, n, "", now)
		if first == "" {
			t.Fatal("a node without an identity gets none")
		}
		if got := identity(t, k, v, n, first, now.Add(c.ttl/2-time.Second)); got != "" {
			t.Errorf("%s: renewed too soon", c.pool)
		}
		for _, at := range []time.Duration{c.ttl / 2, c.ttl, 10 * c.ttl} { // expired: its secret has proven who it is
			if got := identity(t, k, v, n, first, now.Add(at)); got == "" || got == first {
				t.Errorf("%s: not renewed after %s", c.pool, at)
			}
		}
		if got := identity(t, k, v, n, first, now.Add(-time.Hour)); got == "" || got == first { // the clock of the server that signed it was ahead
			t.Errorf("%s: an identity from the future is not replaced", c.pool)
		}
		if got := identity(t, k, v, n, introduce(t, k, v, "", "", 0), now); got == "" {
			t.Error("a node that shows its introduction gets no identity")
		}
	}
}

func TestTheIdentityOfAnotherNodeOrClusterIsRefused(t *testing.T) {
	v, k := view(t, key1), tokens("")
	other := identity(t, k, v, &model.Node{ID: "n2"}, "", now)
	foreign := identity(t, nodetoken.New(nodetoken.Config{Keys: seeded{"other"}, Region: "global", NewID: func() string { return "" }}), v, node(""), "", now)
	for what, shown := range map[string]string{"another node's": other, "another cluster's": foreign, "garbage": "garbage"} {
		if _, err := k.Identity(v, node(""), shown, now); !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A key that was removed makes its identities void, and nothing worse.
	if got := identity(t, k, view(t, "00000000-0000-0000-0000-0000000000b2"), node(""), identity(t, k, v, node(""), "", now), now); got == "" {
		t.Error("no new identity after the key was removed")
	}
}

func TestANodeThatWasRemovedReturnsWithItsIdentity(t *testing.T) {
	v, k := view(t, key1), tokens(nodetoken.Strict)
	own := identity(t, k, v, node(""), "", now)
	if err := k.Admit(v, node(own), now); err != nil {
		t.Error(err)
	}
	if err := k.Admit(v, &model.Node{ID: "n2", Token: own}, now); !errdefs.IsPermissionDenied(err) {
		t.Errorf("another node with it: %v", err)
	}
}
