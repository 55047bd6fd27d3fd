// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/test/e2e/harness"
)

// notOurs are metrics of the reference that have no meaning here, because there is
// no Consul.
var notOurs = []string{"nomad.client.consul.checks", "nomad.client.consul.services"}

// seriesOf returns the names of the client metrics in an answer of /v1/metrics, each
// with the names of its labels.
func seriesOf(t *testing.T, body []byte) map[string]string {
	t.Helper()
	var m api.MetricsSummary
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	add := func(kind, name string, labels map[string]string) {
		if !strings.HasPrefix(name, "nomad.client.") || slices.Contains(notOurs, name) {
			return
		}
		var names []string
		for label := range labels {
			names = append(names, label)
		}
		slices.Sort(names)
		out[name] = kind + " " + strings.Join(names, ",")
	}
	for _, g := range m.Gauges {
		add("gauge", g.Name, g.Labels)
	}
	for _, c := range m.Counters {
		add("counter", c.Name, c.Labels)
	}
	return out
}

func TestANodesMetricsHaveTheNamesAndLabelsOfTheRecordedOnes(t *testing.T) {
	path := filepath.Join(cmp.Or(os.Getenv("DROVER_COMPAT"), filepath.Join("..", "..", "..", "shared", "compat")), "http", "021-metrics.json")
	record, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no records; set DROVER_COMPAT: %v", err)
	}
	var recorded struct {
		Response struct{ Body json.RawMessage }
	}
	if err := json.Unmarshal(record, &recorded); err != nil {
		t.Fatal(err)
	}
	want := seriesOf(t, recorded.Response.Body)
	if len(want) < 20 {
		t.Fatalf("only %d series are recorded in %s", len(want), path)
	}
	a := withStats(t, `publish_node_metrics = true
collection_interval = "200ms"`)
	for name, labels := range want {
		a.Eventually(harness.Patience, name+" is told with the labels "+labels, func() bool {
			_, body := a.HTTPGet("/v1/metrics")
			return seriesOf(t, []byte(body))[name] == labels
		})
	}
}
