// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// fill sets every field that v has to a value of its own, so that a field which the wire
// forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, n)
		v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", *n)), value)
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(uint64(*n))
	default:
		panic(v.Kind().String())
	}
}

func filled[T any]() T {
	var out T
	n := 0
	fill(reflect.ValueOf(&out).Elem(), &n)
	return out
}

// echo answers with filled values and keeps what it was asked.
type echo struct {
	synced registry.SyncRequest
	config string
	err    error
}

func (e *echo) Info() registry.Info { return registry.Info{Name: "echo"} }

func (e *echo) SetConfig(_ context.Context, config []byte) error {
	e.config = string(config)
	return e.err
}

func (e *echo) Fingerprint(ctx context.Context) (<-chan registry.Fingerprint, error) {
	out := make(chan registry.Fingerprint, 1)
	out <- filled[registry.Fingerprint]()
	context.AfterFunc(ctx, func() { close(out) })
	return out, e.err
}

func (e *echo) Sync(_ context.Context, r registry.SyncRequest) (*registry.SyncResult, error) {
	e.synced = r
	return filled[*registry.SyncResult](), e.err
}

// querier is an echo that answers queries as well.
type querier struct {
	echo
	asked  registry.Query
	login  registry.LoginRequest
	logout registry.Credential
}

func (q *querier) Login(_ context.Context, r registry.LoginRequest) (*registry.Login, error) {
	q.login = r
	return filled[*registry.Login](), q.err
}

func (q *querier) Logout(_ context.Context, _ string, c registry.Credential) error {
	q.logout = c
	return q.err
}

func (q *querier) Query(_ context.Context, ask registry.Query) (*registry.Answer, error) {
	q.asked = ask
	return filled[*registry.Answer](), q.err
}

func connect(t *testing.T, r registry.Registry) registry.Registry {
	conn, _ := plugintest.Serve(t, registry.Service(r))
	all, err := registry.Connect(t.Context(), conn)
	if err != nil || len(all) != 1 || all[0].Info().Name != "echo" {
		t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func TestEveryFieldCrossesTheWire(t *testing.T) {
	e := &querier{}
	r := connect(t, e)
	same := func(what string, got, want any, err error) {
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	synced, err := r.Sync(t.Context(), filled[registry.SyncRequest]())
	same("the result of Sync", synced, filled[*registry.SyncResult](), err)
	same("the request of Sync", e.synced, filled[registry.SyncRequest](), nil)
	answer, err := r.(registry.Querier).Query(t.Context(), filled[registry.Query]())
	same("the answer", answer, filled[*registry.Answer](), err)
	same("the query", e.asked, filled[registry.Query](), nil)
	login, err := r.(registry.Authenticator).Login(t.Context(), filled[registry.LoginRequest]())
	same("the login", login, filled[*registry.Login](), err)
	same("the request of a login", e.login, filled[registry.LoginRequest](), nil)
	err = r.(registry.Authenticator).Logout(t.Context(), "default", filled[registry.Credential]())
	same("the end of a credential", e.logout, filled[registry.Credential](), err)
	err = r.SetConfig(t.Context(), []byte(`{"a":1}`))
	same("the config", e.config, `{"a":1}`, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := r.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same("the fingerprint", <-prints, filled[registry.Fingerprint](), nil)
}

func TestErrorsKeepTheirClass(t *testing.T) {
	e := &querier{echo: echo{err: errdefs.PermissionDeniedf("the token may not")}}
	r := connect(t, e)
	_, synced := r.Sync(t.Context(), registry.SyncRequest{Owner: "n1"})
	_, queried := r.(registry.Querier).Query(t.Context(), registry.Query{})
	_, in := r.(registry.Authenticator).Login(t.Context(), registry.LoginRequest{})
	out := r.(registry.Authenticator).Logout(t.Context(), "", registry.Credential{})
	for what, err := range map[string]error{"Login": in, "Logout": out, "Sync": synced, "Query": queried, "SetConfig": r.SetConfig(t.Context(), nil)} {
		if !errdefs.IsPermissionDenied(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	e.err = nil
	if _, err := r.Sync(t.Context(), registry.SyncRequest{}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("Sync without an owner: %v, want InvalidArgument", err)
	}
}

func TestQueriesAndLoginsAreAbilities(t *testing.T) {
	r, able := connect(t, &echo{}), connect(t, &querier{})
	for _, f := range registry.KnownFeatures() {
		if registry.Has(r, f) || !registry.Has(able, f) {
			t.Errorf("feature %q is announced by the wrong registry", f)
		}
	}
	if _, err := r.(registry.Authenticator).Login(t.Context(), registry.LoginRequest{}); !errdefs.IsUnimplemented(err) {
		t.Errorf("a login at a registry without them: %v, want Unimplemented", err)
	}
	if _, err := r.(registry.Querier).Query(t.Context(), registry.Query{}); !errdefs.IsUnimplemented(err) {
		t.Errorf("a query of a registry without them: %v, want Unimplemented", err)
	}
}
