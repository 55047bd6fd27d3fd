// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
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
		v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("key-%d", *n)), reflect.ValueOf(fmt.Sprintf("value-%d", *n)))
	case reflect.String:
		v.SetString(fmt.Sprintf("value-%d", *n))
	case reflect.Int:
		v.SetInt(int64(*n))
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
	asked  network.Request
	config string
	err    error
}

func (e *echo) Info() network.Info { return network.Info{Name: "echo"} }

func (e *echo) SetConfig(_ context.Context, config []byte) error {
	e.config = string(config)
	return e.err
}

func (e *echo) Fingerprint(ctx context.Context) (<-chan network.Fingerprint, error) {
	out := make(chan network.Fingerprint, 1)
	out <- filled[network.Fingerprint]()
	context.AfterFunc(ctx, func() { close(out) })
	return out, e.err
}

func (e *echo) Create(_ context.Context, r network.Request) (*network.Attachment, error) {
	e.asked = r
	return filled[*network.Attachment](), e.err
}

func (e *echo) Inspect(context.Context, string) (*network.Attachment, error) {
	return filled[*network.Attachment](), e.err
}

func (e *echo) Destroy(context.Context, string) error { return e.err }

func (e *echo) List(context.Context) ([]string, error) { return []string{"a", "b"}, e.err }

func connect(t *testing.T, e *echo) network.Network {
	conn, _ := plugintest.Serve(t, network.Service(e))
	all, err := network.Connect(t.Context(), conn)
	if err != nil || len(all) != 1 || all[0].Info().Name != "echo" {
		t.Fatalf("%v, %v", all, err)
	}
	return all[0]
}

func TestEveryFieldCrossesTheWire(t *testing.T) {
	e := &echo{}
	n := connect(t, e)
	same := func(what string, got, want any, err error) {
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v, want %+v", what, got, err, want)
		}
	}
	got, err := n.Create(t.Context(), filled[network.Request]())
	same("the network of Create", got, filled[*network.Attachment](), err)
	same("the request", e.asked, filled[network.Request](), nil)
	got, err = n.Inspect(t.Context(), "a")
	same("the network of Inspect", got, filled[*network.Attachment](), err)
	ids, err := n.List(t.Context())
	same("the list", ids, []string{"a", "b"}, err)
	same("the config", e.config, `{"a":1}`, n.SetConfig(t.Context(), []byte(`{"a":1}`)))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	prints, err := n.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same("the fingerprint", <-prints, filled[network.Fingerprint](), nil)
}

func TestErrorsKeepTheirClass(t *testing.T) {
	e := &echo{}
	n := connect(t, e)
	e.err = errdefs.ResourceExhaustedf("no address is free")
	_, created := n.Create(t.Context(), network.Request{AllocID: "a"})
	_, inspected := n.Inspect(t.Context(), "a")
	_, listed := n.List(t.Context())
	for what, err := range map[string]error{
		"Create": created, "Inspect": inspected, "List": listed, "Destroy": n.Destroy(t.Context(), "a"), "SetConfig": n.SetConfig(t.Context(), nil),
	} {
		if !errdefs.IsResourceExhausted(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	e.err = nil
	if _, err := n.Create(t.Context(), network.Request{}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("Create without an alloc: %v, want InvalidArgument", err)
	}
}
