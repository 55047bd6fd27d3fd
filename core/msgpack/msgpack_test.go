// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package msgpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/msgpack"
)

type row struct {
	Name string
	List []int
	Map  map[string]string
	Next *row
}

// broken cannot be encoded, and is found to be so in the middle of a value.
type broken struct {
	Before string
	Fails  *failing
}

type failing struct{}

func (*failing) MarshalBinary() ([]byte, error) { return nil, errors.New("as ordered") }

func (*failing) UnmarshalBinary([]byte) error { return nil }

func rows() []*row {
	return []*row{
		{}, {Name: "a", List: []int{1, 2}, Map: map[string]string{"k": "v"}},
		{Name: strings.Repeat("x", 100<<10), Next: &row{Name: "large"}}, {Name: "b"},
	}
}

func handle() *codec.MsgpackHandle {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.RawToString, h.Canonical = true, true
	return h
}

func TestWhatAnEncoderEncodedBeforeLeavesNoTrace(t *testing.T) {
	c := msgpack.New(handle())
	for range 3 {
		for i, r := range rows() {
			want, err := msgpack.New(handle()).Append([]byte("before"), r)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Append([]byte("before"), r)
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("row %d: %.100q, %v, and a new encoder's is %.100q", i, got, err, want)
			}
			if out, err := c.Append(nil, &broken{Before: "b", Fails: &failing{}}); err == nil || out != nil {
				t.Fatalf("%q, %v", out, err)
			}
			var back row
			if err := c.Decode(got[len("before"):], &back); err != nil || !reflect.DeepEqual(&back, r) {
				t.Fatalf("row %d came back as %.100v, %v", i, back, err)
			}
			for n := range min(len(want), 30) {
				_ = c.Decode(want[:n], &row{}) // cut off in the middle of a value
			}
			if err := c.Decode([]byte{0xc1}, &back); err == nil {
				t.Fatal("a byte that means nothing was decoded")
			}
		}
	}
}

func TestADecodedValueDoesNotReferToTheData(t *testing.T) {
	c := msgpack.New(handle())
	data, err := c.Append(nil, &row{Name: "name", Map: map[string]string{"key": "value"}})
	if err != nil {
		t.Fatal(err)
	}
	var got row
	if err := c.Decode(data, &got); err != nil {
		t.Fatal(err)
	}
	clear(data)
	if got.Name != "name" || got.Map["key"] != "value" {
		t.Errorf("%+v", got)
	}
}

func TestACodecMayBeUsedConcurrently(t *testing.T) {
	c := msgpack.New(handle())
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for n := range 100 {
				want := row{Name: fmt.Sprint(i, n), List: []int{i, n}}
				data, err := c.Append(nil, &want)
				var got row
				if err != nil || c.Decode(data, &got) != nil || got.Name != want.Name {
					t.Errorf("%+v came back as %+v, %v", want, got, err)
				}
			}
		})
	}
	all.Wait()
}
