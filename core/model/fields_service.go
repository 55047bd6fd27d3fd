// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// partOfServices describes what services do not support yet. Their checks run.
const partOfServices = "services (they are not registered; their checks run)"

func fieldsOfServices() []Field {
	return []Field{
		{Name: "Service.Name", By: "core/agent/alloc"},
		{Name: "Service.TaskName", By: "core/agent/alloc"},
		{Name: "Service.Namespace", By: Around},
		{Name: "Service.PortLabel", By: "core/agent/alloc"},
		{Name: "Service.AddressMode", By: Around},
		{Name: "Service.Address", By: Around},
		{Name: "Service.EnableTagOverride", By: Around},
		{Name: "Service.Tags", By: Around},
		{Name: "Service.CanaryTags", By: Around},
		{Name: "Service.Checks", By: "core/agent/alloc"},
		{Name: "Service.Connect", Warn: "connect"},
		{Name: "Service.Meta", By: Around},
		{Name: "Service.CanaryMeta", By: Around},
		{Name: "Service.TaggedAddresses", By: Around},
		{Name: "Service.OnUpdate", By: Around},
		{Name: "Service.Provider", By: Around},
		{Name: "Service.Cluster", By: Around},
		{Name: "Service.Identity", Warn: "identity of service"},
		{Name: "Service.Kind", By: Around},
		{Name: "Service.Weights", Warn: "weights of service"},
		{Name: "ServiceCheck.Name", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Type", By: "core/agent/checks"},
		{Name: "ServiceCheck.Command", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Args", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Path", By: "core/agent/checks"},
		{Name: "ServiceCheck.Protocol", By: "core/agent/checks"},
		{Name: "ServiceCheck.PortLabel", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Expose", Warn: "expose of check", Refuse: "it needs a Connect sidecar proxy, which no node runs; remove it, and the check reaches the port itself"},
		{Name: "ServiceCheck.AddressMode", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Interval", By: "core/agent/checks"},
		{Name: "ServiceCheck.Timeout", By: "core/agent/checks"},
		{Name: "ServiceCheck.InitialStatus", By: "core/agent/checks"},
		{Name: "ServiceCheck.Notes", By: ReadBack},
		{Name: "ServiceCheck.TLSServerName", By: "core/agent/checks"},
		{Name: "ServiceCheck.TLSSkipVerify", By: "core/agent/checks"},
		{Name: "ServiceCheck.Method", By: "core/agent/checks"},
		{Name: "ServiceCheck.Header", By: "core/agent/checks"},
		{Name: "ServiceCheck.CheckRestart", By: "core/agent/checks"},
		{Name: "ServiceCheck.GRPCService", By: "core/agent/checks"},
		{Name: "ServiceCheck.GRPCUseTLS", By: "core/agent/checks"},
		{Name: "ServiceCheck.TaskName", By: "core/agent/alloc"},
		{Name: "ServiceCheck.SuccessBeforePassing", By: "core/agent/checks"},
		{Name: "ServiceCheck.FailuresBeforeCritical", By: "core/agent/checks"},
		{Name: "ServiceCheck.FailuresBeforeWarning", By: "core/agent/checks"},
		{Name: "ServiceCheck.Body", By: "core/agent/checks"},
		{Name: "ServiceCheck.OnUpdate", By: "core/agent/checks"},
		{Name: "CheckRestart.Limit", By: "core/agent/checks"},
		{Name: "CheckRestart.Grace", By: "core/agent/checks"},
		{Name: "CheckRestart.IgnoreWarnings", By: "core/agent/checks"},
	}
}
