// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csiplugin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/csi/csiplugin"
	volume "github.com/drover-project/drover/sdk/volume/v1"
)

// BenchmarkVolumes makes volumes of 64 MiB with the local driver and publishes them, one
// after another and all at once, takes them back and removes them.
func BenchmarkVolumes(b *testing.B) {
	for _, kind := range []string{"loop", "directory"} {
		for _, run := range []struct{ count, atOnce int }{{50, 1}, {200, 200}} {
			b.Run(fmt.Sprintf("%s/%d/%d at once", kind, run.count, run.atOnce), func(b *testing.B) {
				dir, p := b.TempDir(), csiplugin.New(b.TempDir())
				body := fmt.Sprintf(`{"endpoint": %q, "controller": true, "node": true, "call_timeout": "10m", "verify_mounts": true}`, local(b))
				if err := p.SetConfig(b.Context(), []byte(body)); err != nil {
					b.Fatal(err)
				}
				access := volume.Access{Mode: volume.SingleNodeWriter}
				ids := make([]string, run.count)
				at := func(i int, name string) string { return filepath.Join(dir, fmt.Sprint(i), name) }
				for i := range ids {
					if err := os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					begin := time.Now()
					forth := each(b, run.count, run.atOnce, func(ctx context.Context, i int) error {
						d, err := p.Create(ctx, volume.CreateRequest{
							Name: fmt.Sprint(i), Access: []volume.Access{access}, Capacity: volume.CapacityRange{RequiredBytes: 64 << 20}, Parameters: map[string]string{"kind": kind},
						})
						if err != nil {
							return err
						}
						ids[i] = d.ID
						if err := p.Stage(ctx, volume.StageRequest{ID: d.ID, StagingPath: at(i, "staging"), Access: access}); err != nil {
							return err
						}
						return p.Publish(ctx, volume.PublishRequest{ID: d.ID, StagingPath: at(i, "staging"), TargetPath: at(i, "target"), Access: access})
					})
					made := time.Since(begin)
					begin = time.Now()
					back := each(b, run.count, run.atOnce, func(ctx context.Context, i int) error {
						if err := p.Unpublish(ctx, ids[i], at(i, "target")); err != nil {
							return err
						}
						if err := p.Unstage(ctx, ids[i], at(i, "staging")); err != nil {
							return err
						}
						return p.Delete(ctx, ids[i], nil)
					})
					report(b, "forth", forth, made)
					report(b, "back", back, time.Since(begin))
				}
			})
		}
	}
}

// each makes a call for each volume, some at once, and returns how long each took, in order.
func each(b *testing.B, count, atOnce int, call func(context.Context, int) error) []time.Duration {
	took := make([]time.Duration, count)
	var calls sync.WaitGroup
	free := make(chan struct{}, atOnce)
	for i := range count {
		free <- struct{}{}
		calls.Go(func() {
			defer func() { <-free }()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
			defer cancel()
			begin := time.Now()
			if err := call(ctx, i); err != nil {
				b.Error(err)
			}
			took[i] = time.Since(begin)
		})
	}
	calls.Wait()
	slices.Sort(took)
	return took
}

func report(b *testing.B, what string, took []time.Duration, all time.Duration) {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(took[len(took)/2]), what+"-p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), what+"-p99-ms")
	b.ReportMetric(ms(all), what+"-all-ms")
}
