// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/leak"
	"github.com/drover-project/drover/sdk/plugin"
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
	info.Series[0].Kind, info.Series[1].Kind = stats.Histogram, stats.Counter
	e := &echo{info: info}
	conn, _ := plugintest.Serve(t, stats.Service(e, &echo{info: stats.Info{Name: "other"}}))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil || len(collectors) != 2 {
		t.Fatalf("connect: %d collectors, %v", len(collectors), err)
	}
	c := collectors[0]
	if stats.Has(c, "teleport") {
		t.Error("a collector implements a feature that it does not announce")
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

// gauges is a sample of one series with the labels and tasks.
func gauges(n int, of func(i int) stats.Value) stats.Sample {
	s := stats.Sample{Time: time.Unix(1_700_000_000, 0).UTC()}
	for i := range n {
		v := of(i)
		v.Series = "x"
		s.Values = append(s.Values, v)
	}
	return s
}

// TestLabelsCrossTheConnectionOnce reads the wire as a host that understands sets of labels
// and as one of the first release.
func TestLabelsCrossTheConnectionOnce(t *testing.T) {
	const values = 200
	sample := gauges(values, func(i int) stats.Value {
		return stats.Value{Labels: map[string]string{"device": fmt.Sprint("disk", i)}, Task: fmt.Sprint(i % 3), Value: float64(i)}
	})
	conn, _ := plugintest.Serve(t, stats.Service(&constant{echo: echo{info: stats.Info{Name: "x"}}, sample: sample}))
	for _, understands := range []bool{true, false} {
		s, err := pb.NewStatsClient(conn).Collect(t.Context(), &pb.CollectRequest{Collector: "x", Interval: durationpb.New(time.Millisecond), LabelSets: understands})
		if err != nil {
			t.Fatal(err)
		}
		first, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		second, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		v := second.GetValues()[7]
		if understands {
			if len(first.GetLabelSets()) != values || len(second.GetLabelSets()) != 0 || v.GetLabels() != nil || v.GetTask() != "" {
				t.Errorf("%d sets, then %d; a value is %v", len(first.GetLabelSets()), len(second.GetLabelSets()), v)
			}
			if a, b := proto.Size(first), proto.Size(second); b*2 > a {
				t.Errorf("the first sample has %d bytes and the second %d", a, b)
			}
		} else if len(first.GetLabelSets()) != 0 || v.GetLabels()["device"] != "disk7" || v.GetTask() != "1" {
			t.Errorf("for a host that knows no sets a value is %v", v)
		}
	}
}

// TestLabelsThatChangeStayBounded: with each sample all labels are new, as if tasks came and
// went; the host still gets each value with its labels, and neither side remembers all.
func TestLabelsThatChangeStayBounded(t *testing.T) {
	n := 0
	c := &changing{echo: echo{info: stats.Info{Name: "x"}}, next: func() stats.Sample {
		n++
		return gauges(400, func(i int) stats.Value {
			return stats.Value{Labels: map[string]string{"id": fmt.Sprint(n, "-", i)}, Value: float64(n)}
		})
	}}
	conn, _ := plugintest.Serve(t, stats.Service(c))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, err := collectors[0].Collect(ctx, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := pb.NewStatsClient(conn).Collect(ctx, &pb.CollectRequest{Collector: "x", Interval: durationpb.New(time.Millisecond), LabelSets: true})
	if err != nil {
		t.Fatal(err)
	}
	forgot := 0
	for range 20 {
		s := <-samples
		for i, v := range s.Values {
			if want := fmt.Sprint(v.Value, "-", i); v.Labels["id"] != want || len(s.Problems) > 0 {
				t.Fatalf("value %d has the labels %v, want %s; problems %q", i, v.Labels, want, s.Problems)
			}
		}
		m, err := raw.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetForgetLabelSets() {
			forgot++
		}
	}
	if forgot < 3 {
		t.Errorf("the stream began anew %d times in 20 samples of 400 new sets", forgot)
	}
	cancel()
	for range samples { // until it is closed
	}
}

type changing struct {
	echo
	mu   sync.Mutex
	next func() stats.Sample
}

func (c *changing) Collect(ctx context.Context, interval time.Duration) (<-chan stats.Sample, error) {
	return stats.Every(ctx, interval, func(context.Context) stats.Sample {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.next()
	})
}

// TestAValueOfLabelsThatWereNeverToldIsNotTakenForAnother: a defective collector.
func TestAValueOfLabelsThatWereNeverToldIsNotTakenForAnother(t *testing.T) {
	conn, _ := plugintest.Serve(t, plugin.Service{Kind: stats.Kind, Register: func(r grpc.ServiceRegistrar) { pb.RegisterStatsServer(r, forgetful{}) }})
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, err := collectors[0].Collect(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s := <-samples; len(s.Values) != 1 || s.Values[0].Value != 2 || len(s.Problems) != 1 {
		t.Errorf("got %+v", s)
	}
}

type forgetful struct{ pb.UnimplementedStatsServer }

func (forgetful) Collectors(context.Context, *pb.CollectorsRequest) (*pb.CollectorsResponse, error) {
	return &pb.CollectorsResponse{Collectors: []*pb.Info{{Name: "x"}}}, nil
}

func (forgetful) Collect(_ *pb.CollectRequest, out grpc.ServerStreamingServer[pb.Sample]) error {
	if err := out.SendHeader(metadata.Pairs("drover-stream", "open")); err != nil {
		return err
	}
	return out.Send(&pb.Sample{Values: []*pb.Value{{Series: "x", Value: 1, LabelSet: 9}, {Series: "x", Value: 2}}})
}

// tasked is a collector of tasks.
type tasked struct {
	echo
	tasks []stats.Task
}

func (c *tasked) SetTasks(_ context.Context, tasks []stats.Task) error {
	c.tasks = tasks
	return errdefs.Unavailablef("not now")
}

func TestTasksAreForCollectorsThatAnnounceIt(t *testing.T) {
	with := &tasked{echo: echo{info: stats.Info{Name: "with"}}}
	conn, _ := plugintest.Serve(t, stats.Service(with, &echo{info: stats.Info{Name: "without"}}))
	collectors, err := stats.Connect(t.Context(), conn)
	if err != nil {
		t.Fatal(err)
	}
	want := []stats.Task{filled[stats.Task](), {ID: "other"}}
	if err := collectors[0].(stats.TaskCollector).SetTasks(t.Context(), want); !errdefs.IsUnavailable(err) || !reflect.DeepEqual(with.tasks, want) {
		t.Errorf("%v; told of %+v", err, with.tasks)
	}
	if !stats.Has(collectors[0], stats.FeatureTasks) || stats.Has(collectors[1], stats.FeatureTasks) {
		t.Errorf("features %v and %v", stats.Features(collectors[0]), stats.Features(collectors[1]))
	}
	if err := collectors[1].(stats.TaskCollector).SetTasks(t.Context(), nil); !errdefs.IsUnimplemented(err) {
		t.Errorf("a collector that measures no tasks: %v", err)
	}
}

func TestObservationsCountInTheFirstBucketThatHoldsThem(t *testing.T) {
	bounds := []float64{1, 10}
	o := stats.NewObserved(bounds)
	for _, v := range []float64{0.5, 1, 1.5, 10, 11} {
		o.Add(bounds, v)
	}
	if !reflect.DeepEqual(o.Counts, []uint64{2, 2, 1}) || o.Sum != 24 || o.Count() != 5 {
		t.Errorf("%+v", o)
	}
}
