// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
)

func TestPrometheusGetsHistogramsWithCumulativeBuckets(t *testing.T) {
	var out strings.Builder
	labels := map[string]string{"part": "disks"}
	err := api.WritePrometheus(&out, &api.MetricsSummary{Histograms: []api.MetricHistogram{
		{Name: "drover.client.stats.host.read_time", Bounds: []float64{0.001, 1}, Counts: []uint64{3, 2, 1}, Count: 6, Sum: 9.5, Labels: labels},
		{Name: "drover.client.stats.host.read_time", Bounds: []float64{0.001, 1}, Counts: []uint64{0, 1, 0}, Count: 1, Sum: 0.5},
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `# HELP drover_client_stats_host_read_time drover_client_stats_host_read_time
# TYPE drover_client_stats_host_read_time histogram
drover_client_stats_host_read_time_bucket{le="0.001",part="disks"} 3
drover_client_stats_host_read_time_bucket{le="1",part="disks"} 5
drover_client_stats_host_read_time_bucket{le="+Inf",part="disks"} 6
drover_client_stats_host_read_time_sum{part="disks"} 9.5
drover_client_stats_host_read_time_count{part="disks"} 6
drover_client_stats_host_read_time_bucket{le="0.001"} 0
drover_client_stats_host_read_time_bucket{le="1"} 1
drover_client_stats_host_read_time_bucket{le="+Inf"} 1
drover_client_stats_host_read_time_sum 0.5
drover_client_stats_host_read_time_count 1
`
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
	if len(labels) != 1 {
		t.Errorf("the labels that were given have changed: %v", labels)
	}
}
