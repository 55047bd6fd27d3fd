// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin/plugintest"
	"github.com/drover-project/drover/sdk/schema"
	stats "github.com/drover-project/drover/sdk/stats/v1"
)

func TestMain(m *testing.M) { leak.VerifyTestMain(m) }

// fill sets every field that v has to a value of its own, so that a field which
// the wire forgets shows.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(int64(1_700_000_000+*n), 5).UTC()))
			return
		}
		if v.Type() == reflect.TypeFor[schema.Schema]() {
			return // it contains itself: the test sets it
		}
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
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
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

// echo is a collector that answers with filled values.
type echo struct {
	info   stats.Info
	config string
	asked  time.Duration
}

func (e *echo) Info() stats.Info { return e.info }

func (e *echo) SetConfig(_ context.Context, config []byte) error {
	e.config = string(config)
	return errdefs.FailedPreconditionf("refused")
}

func (e *echo) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	e.asked = interval
	return stats.Every(ctx, interval, func(context.Context) stats.Sample { return filled[stats.Sample]() })
}

func TestTheWireCarriesEveryField(t *testing.T) {
	info := filled[stats.Info]()
	info.Features = nil // found by Service
	info.ConfigSchema = schema.Schema{Attributes: []schema.Attribute{{Name: "dir", Type: schema.String, Default: "x"}}}
	info.Series[0].Kind, info.Series[1].Kind = stats.Gauge, stats.Counter
	e := &echo{info: info}
	conn, _ := plugintest.Serve(t, stats.Service(e, &echo{info: stats.Info{Name: "other"}}))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil || len(collectors) != 2 {
		t.Fatalf("connect: %d collectors, %v", len(collectors), err)
	}
	c := collectors[0]
	if stats.Has(c, "teleport") {
		t.Error("a collector has what it does not announce")
	}
	if got := c.Info(); !reflect.DeepEqual(got, info) {
		t.Errorf("info\n%+v, want\n%+v", got, info)
	}
	if err := c.SetConfig(t.Context(), []byte(`{"dir":"y"}`)); !errdefs.IsFailedPrecondition(err) || e.config != `{"dir":"y"}` {
		t.Errorf("SetConfig of %q: %v", e.config, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, err := c.Collect(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := <-samples, filled[stats.Sample](); !reflect.DeepEqual(got, want) {
		t.Errorf("sample\n%+v, want\n%+v", got, want)
	}
	if e.asked != time.Minute {
		t.Errorf("asked to measure every %s", e.asked)
	}
	cancel()
	for range samples { // until it is closed
	}
	if _, err := c.Collect(t.Context(), 0); !errdefs.IsInvalidArgument(err) {
		t.Errorf("Collect without an interval: %v", err)
	}
}

func TestAKindOfSeriesThatIsNewerThanThisSideIsUnknown(t *testing.T) {
	conn, _ := plugintest.Serve(t, stats.Service(&echo{info: stats.Info{Name: "newer", Series: []stats.Series{{Name: "a", Kind: 7}, {Name: "b"}, {Name: "c", Kind: stats.Counter}}}}))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []stats.SeriesKind{stats.SeriesUnknown, stats.SeriesUnknown, stats.Counter} {
		if s := collectors[0].Info().Series[i]; s.Kind != want {
			t.Errorf("series %q has the kind %d, want %d", s.Name, s.Kind, want)
		}
	}
}

func TestAnEmptySampleStaysEmpty(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	c := &constant{sample: stats.Sample{Time: now}}
	conn, _ := plugintest.Serve(t, stats.Service(c))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	samples, err := collectors[0].Collect(ctx, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if got := <-samples; !reflect.DeepEqual(got, c.sample) {
		t.Errorf("sample %+v", got)
	}
	cancel()
	for range samples { // until it is closed
	}
}

type constant struct {
	echo
	sample stats.Sample
}

func (c *constant) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	return stats.Every(ctx, interval, func(context.Context) stats.Sample { return c.sample })
}
