// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// writePrometheus writes metrics in the text format of Prometheus. Counters are
// written as totals, from which Prometheus computes rates.
func writePrometheus(w io.Writer, m *MetricsSummary) error {
	out := bufio.NewWriter(w)
	seen := map[string]bool{}
	head := func(name, kind string) {
		if !seen[name] {
			seen[name] = true
			fmt.Fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, name, name, kind)
		}
	}
	for _, g := range m.Gauges {
		n := promName(g.Name)
		head(n, "gauge")
		fmt.Fprintf(out, "%s%s %v\n", n, promLabels(g.Labels), g.Value)
	}
	for _, c := range m.Counters {
		n := promName(c.Name)
		head(n, "counter")
		fmt.Fprintf(out, "%s%s %v\n", n, promLabels(c.Labels), c.Total)
	}
	for _, s := range m.Samples {
		n := promName(s.Name)
		head(n, "summary")
		fmt.Fprintf(out, "%s_sum%s %v\n%s_count%s %d\n", n, promLabels(s.Labels), s.Total, n, promLabels(s.Labels), s.TotalCount)
	}
	for _, h := range m.Histograms {
		n := promName(h.Name)
		head(n, "histogram")
		labels := maps.Clone(h.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		sum := uint64(0)
		for i, count := range h.Counts {
			sum += count
			labels["le"] = "+Inf"
			if i < len(h.Bounds) {
				labels["le"] = fmt.Sprint(h.Bounds[i])
			}
			fmt.Fprintf(out, "%s_bucket%s %d\n", n, promLabels(labels), sum)
		}
		delete(labels, "le")
		fmt.Fprintf(out, "%s_sum%s %v\n%s_count%s %d\n", n, promLabels(labels), h.Sum, n, promLabels(labels), h.Count)
	}
	return out.Flush()
}

func promName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == ':':
			return r
		}
		return '_'
	}, s)
}

func promLabels(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	parts := make([]string, 0, len(labels))
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, promName(k)+`="`+quote.Replace(labels[k])+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}
