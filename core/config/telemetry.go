// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"fmt"
	"time"
)

// Telemetry configures metrics.
type Telemetry struct {
	CollectionInterval       string `json:"collection_interval,omitempty"`
	PublishAllocationMetrics bool   `json:"publish_allocation_metrics,omitempty"`
	PublishNodeMetrics       bool   `json:"publish_node_metrics,omitempty"`
	PrometheusMetrics        bool   `json:"prometheus_metrics,omitempty"`
	DisableHostname          bool   `json:"disable_hostname,omitempty"`
	UseNodeName              bool   `json:"use_node_name,omitempty"`
	// PrefixFilter has rules such as "+nomad.raft" and "-nomad.client.allocs".
	// FilterDefault applies to names that no rule matches: true by default.
	PrefixFilter                       []string `json:"prefix_filter,omitempty"`
	FilterDefault                      *bool    `json:"filter_default,omitempty"`
	InMemoryCollectionInterval         string   `json:"in_memory_collection_interval,omitempty"`
	InMemoryRetentionPeriod            string   `json:"in_memory_retention_period,omitempty"`
	DisableDispatchedJobSummaryMetrics bool     `json:"disable_dispatched_job_summary_metrics,omitempty"`
	IncludeAllocMetadataInMetrics      bool     `json:"include_alloc_metadata_in_metrics,omitempty"`
	AllowedMetadataKeysInMetrics       []string `json:"allowed_metadata_keys_in_metrics,omitempty"`

	// Addresses to which metrics are sent at each interval; empty disables a sink.
	// DatadogTags, such as "team:core", are added to every metric for Datadog.
	StatsdAddress   string   `json:"statsd_address,omitempty"`
	StatsiteAddress string   `json:"statsite_address,omitempty"`
	DatadogAddress  string   `json:"datadog_address,omitempty"`
	DatadogTags     []string `json:"datadog_tags,omitempty"`
	// OTLPEndpoint is an OpenTelemetry collector: http://HOST:4318 or
	// grpc://HOST:4317, https or grpcs with TLS. The reference does not have it.
	OTLPEndpoint string            `json:"otlp_endpoint,omitempty"`
	OTLPHeaders  map[string]string `json:"otlp_headers,omitempty"`
}

// leastInterval is the shortest collection_interval: with a shorter one the machine
// would do little else than measure.
const leastInterval = 100 * time.Millisecond

func (t *Telemetry) problems() []string {
	var out []string
	if d, err := ParseDuration(t.CollectionInterval); err == nil && 0 <= d && d < leastInterval {
		out = append(out, fmt.Sprintf("telemetry.collection_interval: %q is less than %s", t.CollectionInterval, leastInterval))
	}
	if d, err := ParseDuration(t.InMemoryCollectionInterval); err == nil && 0 <= d && d < time.Second {
		out = append(out, fmt.Sprintf("telemetry.in_memory_collection_interval: %q is less than 1s", t.InMemoryCollectionInterval))
	}
	for _, rule := range t.PrefixFilter {
		if len(rule) < 2 || rule[0] != '+' && rule[0] != '-' {
			out = append(out, fmt.Sprintf("telemetry.prefix_filter: %q must begin with + or - and name a prefix, as \"-nomad.client.allocs\"", rule))
		}
	}
	return out
}
