// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/endpoint"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// at returns an endpoint of the cluster whose clock stands at now.
func at(c *testkit.Cluster, now *time.Time) *endpoint.Endpoint {
	cfg := c.Endpoint.Config
	cfg.Now = func() time.Time { return *now }
	return endpoint.New(cfg)
}

func put(path string, items map[string]string) *api.VariableRequest {
	return &api.VariableRequest{Namespace: "default", Path: path, Items: items}
}

var ab = map[string]string{"a": "b"}

func TestAVariableIsWrittenReadListedAndDeleted(t *testing.T) {
	c := testkit.Start(t)
	var v struct {
		Items                    map[string]string
		CreateIndex, ModifyIndex uint64
	}
	c.Must("PUT", "/v1/var/nomad/jobs/web", `{"Items":{"k":"v"}}`, &v)
	if v.Items["k"] != "v" || v.CreateIndex == 0 || v.CreateIndex != v.ModifyIndex {
		t.Errorf("written: %+v", v)
	}
	first := v.ModifyIndex
	c.Must("PUT", "/v1/var/nomad/jobs/web", `{"Items":{"k":"w"}}`, &v)
	if v.CreateIndex != first || v.ModifyIndex <= first {
		t.Errorf("written again: %+v after %d", v, first)
	}
	c.Must("PUT", "/v1/var/nomad/job-templates/x", `{"Items":{"k":"v"}}`, nil)
	var list []map[string]any
	c.Must("GET", "/v1/vars?prefix=nomad/jobs", nil, &list)
	if len(list) != 1 || list[0]["Path"] != "nomad/jobs/web" || list[0]["Items"] != nil {
		t.Errorf("listed: %v", list)
	}
	for range 2 { // deleting what is gone is no error
		if resp, body := c.Ask("DELETE", "/v1/var/nomad/jobs/web", nil); resp.StatusCode != 204 || resp.Header.Get("X-Nomad-Index") == "" {
			t.Errorf("%s %s", resp.Status, body)
		}
	}
	if resp, body := c.Ask("GET", "/v1/var/nomad/jobs/web", nil); resp.StatusCode != 404 || body != "variable not found" {
		t.Errorf("%s %s", resp.Status, body)
	}
}

func TestAnswersAboutLocksHaveTheFormThatClientsKnow(t *testing.T) {
	c := testkit.Start(t)
	if resp, body := c.Ask("PUT", "/v1/var/a", `{"Path":"a"}`); resp.StatusCode != 400 || body != "variable missing required Items object" {
		t.Errorf("without items: %s %q", resp.Status, body)
	}
	c.Must("PUT", "/v1/var/a", `{"Items":{"k":"v"}}`, nil)
	var held, out map[string]any
	c.Must("PUT", "/v1/var/a?lock-acquire", `{"Items":{"k":"v"},"Lock":{"TTL":"15s"}}`, &held)
	lock := held["Lock"].(map[string]any)
	if held["Items"] == nil || lock["ID"] == "" || lock["TTL"] != "15s" {
		t.Errorf("acquired: %v", held)
	}
	by := `{"Lock":{"ID":"` + lock["ID"].(string) + `"}}`
	c.Must("PUT", "/v1/var/a?lock-renew", by, &out)
	if _, has := out["Items"]; has || out["Lock"] == nil || out["ModifyIndex"] != held["ModifyIndex"] {
		t.Errorf("renewed: %v", out)
	}
	out = nil
	c.Must("PUT", "/v1/var/a?lock-release", by, &out)
	if out["Items"] != nil || out["Lock"] != nil || out["ModifyIndex"] == held["ModifyIndex"] {
		t.Errorf("released: %v", out)
	}
	c.Must("GET", "/v1/var/a", nil, &out)
	if items, ok := out["Items"].(map[string]any); !ok || items["k"] != "v" {
		t.Errorf("a release took the items: %v", out)
	}
}

func TestALockNeedsNoVariableAndNoItems(t *testing.T) {
	c := testkit.Start(t)
	var held, out map[string]any
	c.Must("PUT", "/v1/var/lead?lock-acquire", `{"Path":"lead","Lock":{"TTL":"15s"}}`, &held)
	if items, ok := held["Items"].(map[string]any); !ok || len(items) != 0 || held["Lock"] == nil {
		t.Errorf("acquired: %v", held)
	}
	if resp, body := c.Ask("PUT", "/v1/var/lead?lock-acquire", `{"Path":"lead","Lock":{"TTL":"15s"}}`); resp.StatusCode != 409 {
		t.Errorf("the second one: %s %q", resp.Status, body)
	}
	c.Must("PUT", "/v1/var/lead?lock-release", `{"Lock":{"ID":"`+held["Lock"].(map[string]any)["ID"].(string)+`"}}`, nil)
	c.Must("PUT", "/v1/var/lead", `{"Items":{"k":"v"}}`, nil)
	c.Must("PUT", "/v1/var/lead?lock-acquire", `{"Lock":{"TTL":"15s"}}`, &out)
	if items, ok := out["Items"].(map[string]any); !ok || items["k"] != "v" {
		t.Errorf("a lock took the items: %v", out)
	}
}

// overtaken is a Raft in which something else happens before each entry.
type overtaken struct {
	endpoint.Raft
	other func()
}

func (o overtaken) Propose(ctx context.Context, command []byte) (uint64, any, error) {
	o.other()
	return o.Raft.Propose(ctx, command)
}

func TestALockKeepsTheItemsOfAVariableThatIsCreatedMeanwhile(t *testing.T) {
	c := testkit.Start(t)
	cfg := c.Endpoint.Config
	cfg.Raft = overtaken{cfg.Raft, sync.OnceFunc(func() { c.Must("PUT", "/v1/var/lead", `{"Items":{"k":"v"}}`, nil) })}
	e := endpoint.New(cfg)
	v, _, err := e.PutVariable(t.Context(), &api.VariableRequest{Namespace: "default", Path: "lead", Operation: api.LockAcquire})
	if err != nil || v.Items["k"] != "v" || v.Lock == nil {
		t.Errorf("%+v, %v", v, err)
	}
}

func TestAVariableThatCannotBeIsRefused(t *testing.T) {
	e := testkit.Start(t).Endpoint
	for name, req := range map[string]*api.VariableRequest{
		"no items":        put("a", nil),
		"no path":         put("", ab),
		"a wild path":     put("a b", ab),
		"a long path":     put(strings.Repeat("a", 129), ab),
		"a reserved path": put("nomad/x", ab),
		"too large":       put("a", map[string]string{"k": strings.Repeat("x", 64<<10)}),
		"no name":         put("a", map[string]string{"": "x"}),
		"no namespace":    {Namespace: "none", Path: "a", Items: ab},
		"a lock to put":   {Namespace: "default", Path: "a", Items: ab, Lock: &api.VariableLock{TTL: api.LockTime(time.Minute)}},
		"a short lock":    {Namespace: "default", Path: "a", Items: ab, Operation: api.LockAcquire, Lock: &api.VariableLock{TTL: api.LockTime(time.Second)}},
		"a nameless lock": {Namespace: "default", Path: "a", Items: ab, Operation: api.LockRelease},
	} {
		if _, _, err := e.PutVariable(t.Context(), req); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := e.PutVariable(t.Context(), put("a", map[string]string{"k": strings.Repeat("x", 64<<10-1)})); err != nil {
		t.Errorf("64 KiB: %v", err)
	}
}

func TestCASLetsOnlyTheExpectedIndexWrite(t *testing.T) {
	e := testkit.Start(t).Endpoint
	cas := func(index uint64) *api.VariableRequest {
		req := put("a", ab)
		req.CAS = &index
		return req
	}
	v, _, err := e.PutVariable(t.Context(), cas(0))
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []uint64{0, v.ModifyIndex + 1} {
		if _, _, err := e.PutVariable(t.Context(), cas(wrong)); !errdefs.IsConflict(err) {
			t.Errorf("index %d: %v", wrong, err)
		}
		if _, err := e.DeleteVariable(t.Context(), cas(wrong)); !errdefs.IsConflict(err) {
			t.Errorf("delete at %d: %v", wrong, err)
		}
	}
	if _, err := e.DeleteVariable(t.Context(), cas(v.ModifyIndex)); err != nil {
		t.Errorf("delete at the right index: %v", err)
	}
}

func TestALockKeepsOthersOutUntilItIsReleasedOrRunsOut(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	e := at(testkit.Start(t), &now)
	acquire := func() (*api.Variable, error) {
		v, _, err := e.PutVariable(t.Context(), &api.VariableRequest{
			Namespace: "default", Path: "a", Items: ab, Operation: api.LockAcquire,
			Lock: &api.VariableLock{TTL: api.LockTime(20 * time.Second), LockDelay: api.LockTime(10 * time.Second)},
		})
		return v, err
	}
	with := func(op, id string) error {
		_, _, err := e.PutVariable(t.Context(), &api.VariableRequest{Namespace: "default", Path: "a", Items: ab, Operation: op, Lock: &api.VariableLock{ID: id}})
		return err
	}
	v, err := acquire()
	if err != nil || v.Lock == nil || v.Lock.ID == "" {
		t.Fatalf("acquired %+v, %v", v, err)
	}
	id := v.Lock.ID
	if _, err := acquire(); !errdefs.IsConflict(err) {
		t.Errorf("acquired twice: %v", err)
	}
	if _, _, err := e.PutVariable(t.Context(), put("a", ab)); !errdefs.IsConflict(err) {
		t.Errorf("written without the lock: %v", err)
	}
	if _, err := e.DeleteVariable(t.Context(), put("a", nil)); !errdefs.IsConflict(err) {
		t.Errorf("deleted without the lock: %v", err)
	}
	if err := with("", id); err != nil {
		t.Errorf("written by the holder: %v", err)
	}
	now = now.Add(15 * time.Second)
	if err := with(api.LockRenew, id); err != nil {
		t.Errorf("renewed: %v", err)
	}
	now = now.Add(15 * time.Second) // past the first deadline, within the renewed one
	if _, err := acquire(); !errdefs.IsConflict(err) {
		t.Errorf("acquired from a holder that renewed: %v", err)
	}
	now = now.Add(6 * time.Second) // the lease has run out, its delay has not
	if err := with(api.LockRenew, id); !errdefs.IsConflict(err) {
		t.Errorf("renewed what ran out: %v", err)
	}
	if _, err := acquire(); !errdefs.IsConflict(err) {
		t.Errorf("acquired within the delay: %v", err)
	}
	now = now.Add(10 * time.Second)
	v, err = acquire()
	if err != nil {
		t.Fatalf("acquired after the delay: %v", err)
	}
	if err := with(api.LockRelease, v.Lock.ID); err != nil {
		t.Errorf("released: %v", err)
	}
	if _, err = acquire(); err != nil {
		t.Errorf("acquired right after a release: %v", err)
	}
}

func TestAFullRotationSealsEverythingAnewAndTheOldKeyCanGo(t *testing.T) {
	c := testkit.Start(t)
	for i := range 70 { // more than one batch
		if _, _, err := c.PutVariable(t.Context(), put(fmt.Sprintf("v/%d", i), ab)); err != nil {
			t.Fatal(err)
		}
	}
	old := c.Server.Endpoint().Store.View().ActiveRootKey()
	before := c.View().VariableByPath("default", "v/0").ModifyIndex
	if _, err := c.RemoveKey(t.Context(), old.KeyID, false); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("the active key went: %v", err)
	}
	if _, err := c.RotateKey(t.Context(), &api.RotateKeyRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveKey(t.Context(), old.KeyID, false); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("a key that seals variables went: %v", err)
	}
	fresh, err := c.RotateKey(t.Context(), &api.RotateKeyRequest{Full: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveKey(t.Context(), old.KeyID, false); err != nil {
		t.Errorf("the old key stays: %v", err)
	}
	for v := range c.View().Variables("default", "v/") {
		if v.KeyID != fresh.KeyID {
			t.Fatalf("%s is sealed with %s", v.Path, v.KeyID)
		}
		if out, err := c.OpenVariable(v); err != nil || out.Items["a"] != "b" {
			t.Fatalf("%s holds %v, %v", v.Path, out, err)
		}
	}
	if after := c.View().VariableByPath("default", "v/0").ModifyIndex; after != before {
		t.Errorf("sealing anew moved the modify index from %d to %d", before, after)
	}
}

func TestTheFirstRequestForPublicKeysMakesOneAndLaterOnesAnswerTheSame(t *testing.T) {
	c := testkit.Start(t)
	var kids [2]string
	for i := range kids {
		var out struct{ Keys []struct{ Kid, Kty string } }
		c.Must("GET", "/.well-known/jwks.json", nil, &out)
		if len(out.Keys) != 2 || out.Keys[0].Kty != "RSA" || out.Keys[1].Kty != "OKP" || out.Keys[1].Kid != out.Keys[0].Kid+".ed25519" {
			t.Fatalf("%+v", out)
		}
		kids[i] = out.Keys[0].Kid
	}
	if kids[0] != kids[1] {
		t.Errorf("the key changed: %v", kids)
	}
}

func TestAPrepublishedKeyIsPublishedListedAndUsedFromItsTimeOn(t *testing.T) {
	c := testkit.Start(t)
	if err := c.EnsureKey(t.Context()); err != nil { // the new leader does so, too
		t.Fatal(err)
	}
	old := c.Server.Endpoint().Store.View().ActiveRootKey().KeyID
	rotate := func(query string, out any) (status int) {
		resp, body := c.Ask("PUT", "/v1/operator/keyring/rotate?"+query, nil)
		if resp.StatusCode == 200 {
			if err := json.Unmarshal([]byte(body), out); err != nil {
				t.Fatal(err)
			}
		}
		return resp.StatusCode
	}
	prepublish := func(at time.Time) string {
		var made struct{ Key api.RootKeyMeta }
		if status := rotate(fmt.Sprintf("publish_time=%d", at.UnixNano()), &made); status != 200 {
			t.Fatalf("status %d", status)
		}
		waits := made.Key.State == model.RootKeyPrepublished || time.Now().After(at) // then it may be active
		if !waits || made.Key.PublishTime != at.UnixNano() {
			t.Fatalf("made %+v", made.Key)
		}
		return made.Key.KeyID
	}
	later := prepublish(time.Now().Add(time.Hour))
	var keys []api.RootKeyMeta
	c.Must("GET", "/v1/operator/keyring/keys", nil, &keys)
	states := map[string]string{}
	for _, k := range keys {
		states[k.KeyID] = k.State
	}
	if states[old] != model.RootKeyActive || states[later] != model.RootKeyPrepublished {
		t.Errorf("listed %v", states)
	}
	var jwks struct{ Keys []struct{ Kid string } }
	c.Must("GET", "/.well-known/jwks.json", nil, &jwks)
	if len(jwks.Keys) != 4 || jwks.Keys[0].Kid != later && jwks.Keys[1].Kid != later {
		t.Errorf("published %+v, want the active key and %s", jwks.Keys, later)
	}
	soon := time.Now().Add(2 * time.Second)
	next := prepublish(soon)
	c.Eventually("the key to become active", func() bool { return c.Server.Endpoint().Store.View().ActiveRootKey().KeyID == next })
	if time.Now().Before(soon) {
		t.Error("the key became active before its time")
	}
	if _, _, err := c.PutVariable(t.Context(), put("v", ab)); err != nil {
		t.Fatal(err)
	}
	if got := c.View().VariableByPath("default", "v").KeyID; got != next {
		t.Errorf("sealed with %s, want %s", got, next)
	}
	for query, want := range map[string]int{
		"publish_time=1": 400, "publish_time=x": 400, "publish_time=-1": 400, "algo=rot13": 400,
		fmt.Sprintf("full=true&publish_time=%d", time.Now().Add(time.Hour).UnixNano()): 400,
	} {
		if status := rotate(query, nil); status != want {
			t.Errorf("rotate?%s: status %d, want %d", query, status, want)
		}
	}
}

func TestTheLogHoldsNoItemOfAVariable(t *testing.T) {
	c := testkit.Start(t)
	if _, _, err := c.PutVariable(t.Context(), put("a", map[string]string{"k": "hunter2hunter2"})); err != nil {
		t.Fatal(err)
	}
	row := c.View().VariableByPath("default", "a")
	entry, err := fsm.Encode(&fsm.PutVariable{Variable: row})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(entry), "hunter2") {
		t.Error("the log entry holds the item as it is")
	}
	if text, err := json.Marshal(row); err != nil || strings.Contains(string(text), "hunter2") {
		t.Errorf("the row holds the item as it is: %v", err)
	}
}

func TestABlockingReadOfAVariableWakesAtItsChange(t *testing.T) {
	c := testkit.Start(t)
	v, _, err := c.PutVariable(t.Context(), put("a", ab))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := c.Watch(ctx, state.Key{Table: state.TableVariables, Value: state.VariableKey("default", "a")})
	got := make(chan string, 1)
	go func() {
		_, body := c.Ask("GET", fmt.Sprintf("/v1/var/a?index=%d&wait=50s", v.ModifyIndex), nil)
		got <- body
	}()
	if _, _, err := c.PutVariable(t.Context(), put("a", map[string]string{"a": "new"})); err != nil {
		t.Fatal(err)
	}
	<-changed
	if body := <-got; !strings.Contains(body, "new") {
		t.Errorf("answered %s", body)
	}
}
