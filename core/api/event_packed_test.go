// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"fmt"
	"math/big"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// fillWith sets every exported field below v. Each number and string is another one.
func fillWith(v reflect.Value, n *int64, depth int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		if depth > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillWith(v.Elem(), n, depth-1)
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*time.Time); ok {
			*t = time.Unix(*n, *n).UTC()
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillWith(v.Field(i), n, depth-1)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillWith(v.Index(i), n, depth-1)
		}
	case reflect.Map:
		key, elem := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fillWith(key, n, depth-1)
		fillWith(elem, n, depth-1)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, elem)
	case reflect.Interface:
		// A large integer, as drivers may have in their configuration.
		v.Set(reflect.ValueOf(new(big.Int).SetInt64(1<<62 + *n)))
	case reflect.String:
		v.SetString(fmt.Sprint("text", *n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(*n % 120)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 120))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic("no value for " + v.Type().String())
	}
}

func filledIn[T any](id string) *T {
	out, n := new(T), int64(len(id))
	fillWith(reflect.ValueOf(out).Elem(), &n, 12)
	reflect.ValueOf(out).Elem().FieldByName("ID").SetString(id)
	reflect.ValueOf(out).Elem().FieldByName("Namespace").SetString("default")
	return out
}

// TestEventsOfAServerAtRestAreThoseOfABusyOne: what a server at rest packs, it tells late
// subscribers word for word, whatever they select and wherever they begin.
func TestEventsOfAServerAtRestAreThoseOfABusyOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBackend(oneAlloc())
		s := fed(t, b, api.Config{})
		read := func(query string) string {
			ask, done := context.WithTimeout(t.Context(), time.Second)
			defer done()
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ask, "GET", "http://127.0.0.1/v1/event/stream?"+query, nil))
			return w.Body.String()
		}
		index := uint64(10)
		work := func(rounds int) {
			for range rounds {
				index++
				id := fmt.Sprint("o", index)
				b.changes <- []state.Change{
					{Table: state.TableJobs, Index: index, New: filledIn[model.Job](id)},
					{Table: state.TableNodePools, Index: index, New: &model.NodePool{Name: id}},
					{Table: state.TableEvals, Index: index, New: filledIn[model.Evaluation](id)},
					{Table: state.TableDeployments, Index: index, New: filledIn[model.Deployment](id)},
					{Table: state.TableAllocs, Index: index, New: filledIn[model.Allocation](id)},
					{Table: state.TableJobs, Index: index, Old: filledIn[model.Job](id)},
				}
			}
			synctest.Wait()
		}
		queries := []string{
			"index=2&namespace=*", "index=14&namespace=*", "index=19&namespace=*", "index=2&namespace=*&topic=Allocation:o13", "index=2&namespace=*&topic=NodePool",
			"index=2&namespace=*&filter=Payload.Evaluation.Priority%3E1", "index=2&namespace=other",
		}
		same := func(before map[string]string) {
			t.Helper()
			for q, want := range before {
				if got := read(q); got != want {
					t.Errorf("%s: at rest\n%.2000s\nnot\n%.2000s", q, got, want)
				}
			}
		}
		all := func() map[string]string {
			out := map[string]string{}
			for _, q := range queries {
				out[q] = read(q)
			}
			return out
		}
		work(10)
		busy := all()
		if n := strings.Count(busy[queries[0]], `"Topic"`); n != 60 {
			t.Fatalf("%d events of 60", n)
		}
		time.Sleep(time.Minute)
		if packed, plain := api.KeptChanges(s); packed != 60 || plain != 0 {
			t.Errorf("%d changes are packed and %d are not", packed, plain)
		}
		same(busy)
		// Newer work comes behind what is packed, and is packed in its turn.
		work(8)
		busy = all()
		if n := strings.Count(busy[queries[0]], `"Topic"`); n != 108 {
			t.Fatalf("%d events of 108", n)
		}
		time.Sleep(time.Minute)
		if packed, plain := api.KeptChanges(s); packed != 108 || plain != 0 {
			t.Errorf("%d changes are packed and %d are not", packed, plain)
		}
		same(busy)
		// The oldest are dropped pack by pack, and who asks for them is told of the gap.
		work(40)
		time.Sleep(time.Minute)
		if packed, plain := api.KeptChanges(s); packed < 256 || packed > 256+60 || plain != 0 {
			t.Errorf("%d changes are packed and %d are not", packed, plain)
		}
		if got := read("index=2&namespace=*"); !strings.Contains(got, `"Gap":{"From":2,`) {
			t.Errorf("no gap is named: %.200s", got)
		}
	})
}
