// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"strings"
)

func fieldsOfServices() []Field {
	return []Field{
		{Name: "Service.Name", By: "core/services"},
		{Name: "Service.TaskName", By: "core/services"},
		{Name: "Service.Namespace", By: ReadBack},
		{Name: "Service.PortLabel", By: "core/services"},
		{Name: "Service.AddressMode", By: "core/services"},
		{Name: "Service.Address", By: "core/services"},
		{Name: "Service.EnableTagOverride", By: "core/agent/alloc", Warn: "enable_tag_override of service (nobody else changes the tags of provider nomad)", When: ofNomad},
		{Name: "Service.Tags", By: "core/services"},
		{Name: "Service.CanaryTags", By: "core/services"},
		{Name: "Service.Checks", By: "core/agent/alloc"},
		{Name: "Service.Connect", Warn: "connect (sidecar_service, sidecar_task, gateway or native)", Refuse: "no node runs the proxies of a Consul service mesh; remove it, and the service is registered without one"},
		{Name: "Service.Meta", By: "core/services"},
		{Name: "Service.CanaryMeta", By: "core/services"},
		{Name: "Service.TaggedAddresses", By: "core/services", Warn: "tagged_addresses of service (no question for services of provider nomad can ask for one)", When: ofNomad},
		{Name: "Service.OnUpdate", By: ReadBack}, // its checks have it from core/jobspec
		{Name: "Service.Provider", By: "core/services"},
		{Name: "Service.Cluster", By: "core/services", Warn: "cluster of service (only Consul has clusters)", When: ofNomadElsewhere},
		{Name: "Service.Identity", By: "core/services", Warn: "identity of service (services of provider nomad are registered without a token)", When: ofNomad},
		{Name: "Service.Kind", By: "core/agent/alloc", Warn: "kind of service (only Consul has kinds of services)", When: ofNomad},
		{Name: "Service.Weights", By: "core/services"},
		{Name: "ServiceWeights.Passing", By: "core/services"},
		{Name: "ServiceWeights.Warning", By: "core/agent/alloc", Warn: "warning of weights of service (DNS gives out instances of provider nomad that warn with their weight of passing)", When: ofNomad},
		{Name: "ServiceCheck.Name", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Type", By: "core/agent/checks"},
		{Name: "ServiceCheck.Command", By: "core/agent/alloc", Warn: "command of check (only checks of type script have it)", When: checkIsNot("script")},
		{Name: "ServiceCheck.Args", By: "core/agent/alloc", Warn: "args of check (only checks of type script have it)", When: checkIsNot("script")},
		{Name: "ServiceCheck.Path", By: "core/agent/checks", Warn: "path of check (only checks of type http have it)", When: checkIsNot("http")},
		{Name: "ServiceCheck.Protocol", By: "core/agent/checks", Warn: "protocol of check (only checks of type http have it)", When: checkIsNot("http")},
		{Name: "ServiceCheck.PortLabel", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Expose", Warn: "expose of check", Refuse: "it needs a Connect sidecar proxy, which no node runs; remove it, and the check reaches the port itself"},
		{Name: "ServiceCheck.AddressMode", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Interval", By: "core/agent/checks"},
		{Name: "ServiceCheck.Timeout", By: "core/agent/checks"},
		{Name: "ServiceCheck.InitialStatus", By: "core/agent/checks"},
		{Name: "ServiceCheck.Notes", By: "core/agent/alloc"},
		{Name: "ServiceCheck.TLSServerName", By: "core/agent/checks", Warn: "tls_server_name of check (only checks of type http and grpc have it)", When: checkIsNot("http", "grpc")},
		{Name: "ServiceCheck.TLSSkipVerify", By: "core/agent/checks", Warn: "tls_skip_verify of check (only checks of type http and grpc have it)", When: checkIsNot("http", "grpc")},
		{Name: "ServiceCheck.Method", By: "core/agent/checks", Warn: "method of check (only checks of type http have it)", When: checkIsNot("http")},
		{Name: "ServiceCheck.Header", By: "core/agent/checks", Warn: "header of check (only checks of type http have it)", When: checkIsNot("http")},
		{Name: "ServiceCheck.CheckRestart", By: "core/agent/checks"},
		{Name: "ServiceCheck.GRPCService", By: "core/agent/checks", Warn: "grpc_service of check (only checks of type grpc have it)", When: checkIsNot("grpc")},
		{Name: "ServiceCheck.GRPCUseTLS", By: "core/agent/checks", Warn: "grpc_use_tls of check (only checks of type grpc have it)", When: checkIsNot("grpc")},
		{Name: "ServiceCheck.TaskName", By: "core/agent/alloc"},
		{Name: "ServiceCheck.SuccessBeforePassing", By: "core/agent/checks"},
		{Name: "ServiceCheck.FailuresBeforeCritical", By: "core/agent/checks"},
		{Name: "ServiceCheck.FailuresBeforeWarning", By: "core/agent/checks"},
		{Name: "ServiceCheck.Body", By: "core/agent/checks", Warn: "body of check (only checks of type http have it)", When: checkIsNot("http")},
		{Name: "ServiceCheck.OnUpdate", By: "core/agent/checks"},
		{Name: "ServiceCheck.Advertise", Warn: "advertise of check (use address_mode)"},
		{Name: "CheckRestart.Limit", By: "core/agent/checks"},
		{Name: "CheckRestart.Grace", By: "core/agent/checks"},
		{Name: "CheckRestart.IgnoreWarnings", By: "core/agent/checks"},
	}
}

// checkIsNot returns a condition: the check of the field has none of the types.
func checkIsNot(types ...string) func(Place) bool {
	return func(p Place) bool {
		c, ok := p.Of.(*ServiceCheck)
		return ok && c.Type != "" && !slices.Contains(types, strings.ToLower(c.Type))
	}
}

// ofNomad reports whether the place's service is of provider nomad.
func ofNomad(p Place) bool { return p.Service != nil && p.Service.Provider == "nomad" }

// ofNomadElsewhere reports whether the place's service is of provider nomad and names a cluster
// of Consul that is not the one by default, which clients send for all services.
func ofNomadElsewhere(p Place) bool {
	return ofNomad(p) && p.Service.Cluster != "" && p.Service.Cluster != "default"
}
