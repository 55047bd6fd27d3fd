// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package identity_test

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/auth/identity"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	key1  = "00000000-0000-0000-0000-0000000000b1"
	key2  = "00000000-0000-0000-0000-0000000000b2"
	alloc = "00000000-0000-0000-0000-0000000000a1"
)

var now = time.Unix(1_800_000_000, 0).UTC()

type world struct {
	ring  *keyring.Keyring
	store *state.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	ring, err := keyring.Open("", "s1")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{ring: ring, store: state.New()}
	w.key(t, key1)
	return w
}

// key adds an active root key with an RSA key.
func (w *world) key(t testing.TB, id string) {
	t.Helper()
	root, err := w.ring.NewKey(id, now, slices.Values([]*model.ServerKey(nil)))
	if err != nil {
		t.Fatal(err)
	}
	if root, err = w.ring.WithSigningKey(root); err != nil {
		t.Fatal(err)
	}
	w.tx(t, func(tx *state.Tx) { tx.UpsertRootKey(root) })
}

func (w *world) tx(t testing.TB, do func(*state.Tx)) {
	t.Helper()
	if err := w.store.Update(w.store.View().Index()+1, func(tx *state.Tx) error { do(tx); return nil }); err != nil {
		t.Fatal(err)
	}
}

func (w *world) signer(algorithm string) *identity.Signer {
	return identity.New(identity.Config{Keys: w.ring, Region: "global", Issuer: "https://x", Algorithm: algorithm, NewID: func() string { return "id" }})
}

func job() *model.Job {
	return &model.Job{ID: "web", ParentID: "cron", Namespace: "default"}
}

func anAlloc(status string) *model.Allocation {
	return &model.Allocation{ID: alloc, Namespace: "default", JobID: "web", TaskGroup: "g", NodeID: "n", Job: job(), ClientStatus: status}
}

func (w *world) put(t testing.TB, status string) {
	t.Helper()
	if w.store.View().AllocByID(alloc) != nil {
		w.tx(t, func(tx *state.Tx) { tx.DeleteAlloc(alloc) })
	}
	w.tx(t, func(tx *state.Tx) { tx.PlaceAlloc(anAlloc(status), now.UnixNano()) })
}

func sign(t testing.TB, w *world, s *identity.Signer, id *model.WorkloadIdentity) string {
	t.Helper()
	out, err := s.Sign(w.store.View(), anAlloc(""), "t", id, now)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestATokenSaysWhoShowsIt(t *testing.T) {
	w := newWorld(t)
	text := sign(t, w, w.signer(""), &model.WorkloadIdentity{Name: "aws", Audience: []string{"sts"}, TTL: time.Hour})
	part := func(i int) (out map[string]any) {
		raw, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	if h := part(0); h["alg"] != "EdDSA" || h["kid"] != key1+".ed25519" {
		t.Error(h)
	}
	c := part(1)
	for name, want := range map[string]any{
		"iss": "https://x", "sub": "global:default:cron:g:t:aws", "nomad_namespace": "default", "nomad_job_id": "cron", "nomad_task": "t",
		"nomad_allocation_id": alloc, "iat": float64(now.Unix()), "nbf": float64(now.Unix()), "exp": float64(now.Add(time.Hour).Unix()), "jti": "id",
	} {
		if c[name] != want {
			t.Errorf("%s is %v, not %v", name, c[name], want)
		}
	}
}

func TestATokenIsGoodWhileItsAllocLivesAndForNobodyElse(t *testing.T) {
	for _, algorithm := range []string{identity.EdDSA, identity.RS256} {
		w := newWorld(t)
		s := w.signer(algorithm)
		text := sign(t, w, s, &model.WorkloadIdentity{})
		check := func(what, text string, at time.Time, says string) {
			t.Helper()
			err := s.Check(w.store.View(), text, at)
			if says == "" && err != nil || says != "" && (!errdefs.IsPermissionDenied(err) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%s, %s: %v", algorithm, what, err)
			}
		}
		check("before its alloc is known", text, now, "does not exist")
		w.put(t, model.AllocClientStatusRunning)
		check("living", text, now.Add(1000*time.Hour), "")
		w.key(t, key2)
		check("after a rotation", text, now, "")
		head, _, _ := strings.Cut(text, ".")
		check("altered", text[:len(text)-8]+"AAAAAAAA", now, "not valid")
		check("unsigned", base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","kid":"`+key1+`"}`))+text[len(head):strings.LastIndex(text, ".")+1], now, "not valid")
		check("no token", "secret", now, "not a JSON Web Token")
		check("for another service", sign(t, w, s, &model.WorkloadIdentity{Name: "x", Audience: []string{"vault"}}), now, "audience")
		short := sign(t, w, s, &model.WorkloadIdentity{Name: "x", TTL: time.Minute})
		check("in its time", short, now.Add(time.Minute), "")
		check("before its time", short, now.Add(-time.Minute), "the clock of this server says")
		check("after its time", short, now.Add(2*time.Minute), "expired")
		other := newWorld(t)
		check("another cluster's", sign(t, other, other.signer(algorithm), &model.WorkloadIdentity{}), now, "not valid")
		w.put(t, model.AllocClientStatusComplete)
		check("of an alloc that has ended", text, now, "has ended")
	}
}

func BenchmarkSign(b *testing.B) {
	for _, algorithm := range []string{identity.EdDSA, identity.RS256} {
		b.Run(algorithm, func(b *testing.B) {
			w := newWorld(b)
			s, a, view := w.signer(algorithm), anAlloc(""), w.store.View()
			id := &model.WorkloadIdentity{Name: "aws", Audience: []string{"sts"}, TTL: time.Hour}
			for b.Loop() {
				if _, err := s.Sign(view, a, "t", id, now); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}
