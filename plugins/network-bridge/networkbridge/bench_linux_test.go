// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// BenchmarkNetworks makes and removes networks with one port each, one after another and 50
// at once, and reports the time of each call.
func BenchmarkNetworks(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("networks are made by root")
	}
	for _, atOnce := range []int{1, 50} {
		b.Run(fmt.Sprintf("%d at once", atOnce), func(b *testing.B) {
			bridge := fmt.Sprintf("drm%d", os.Getpid())
			defer func() { _ = exec.Command("ip", "link", "del", bridge).Run() }()
			n := networkbridge.New(b.TempDir())
			config := fmt.Sprintf(`{"bridge_network_name": %q, "bridge_network_subnet": "10.215.0.0/20"}`, bridge)
			if err := n.SetConfig(b.Context(), []byte(config)); err != nil {
				b.Fatal(err)
			}
			ids := make([]string, 100)
			for i := range ids {
				ids[i] = fmt.Sprintf("alloc-%d", i)
			}
			each := func(call func(i int) error) []time.Duration {
				took := make([]time.Duration, len(ids))
				var calls sync.WaitGroup
				free := make(chan struct{}, atOnce)
				for i := range ids {
					free <- struct{}{}
					calls.Go(func() {
						defer func() { <-free }()
						begin := time.Now()
						if err := call(i); err != nil {
							b.Error(err)
						}
						took[i] = time.Since(begin)
					})
				}
				calls.Wait()
				slices.Sort(took)
				return took
			}
			for b.Loop() {
				made := each(func(i int) error {
					_, err := n.Create(context.Background(), network.Request{AllocID: ids[i], Network: "bridge", Ports: []network.Port{{Label: "http", HostPort: 30000 + i, Port: 80}}})
					return err
				})
				removed := each(func(i int) error { return n.Destroy(context.Background(), ids[i]) })
				for what, took := range map[string][]time.Duration{"make": made, "remove": removed} {
					b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, what+"-p50-ms")
					b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, what+"-p99-ms")
				}
			}
		})
	}
}
