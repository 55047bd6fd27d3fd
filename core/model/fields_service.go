// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

// partOfServices describes what services do not support yet. Their tcp and http checks
// decide whether an alloc of a deployment is healthy.
const partOfServices = "services (they are not registered; their checks are asked until an alloc is healthy, and not afterwards)"

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
		{Name: "Service.Provider", By: "core/agent/alloc"},
		{Name: "Service.Cluster", By: Around},
		{Name: "Service.Identity", Warn: "identity of service"},
		{Name: "Service.Kind", By: Around},
		{Name: "Service.Weights", Warn: "weights of service"},
		{Name: "ServiceCheck.Name", By: Around},
		{Name: "ServiceCheck.Type", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Command", By: Around},
		{Name: "ServiceCheck.Args", By: Around},
		{Name: "ServiceCheck.Path", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Protocol", By: "core/agent/alloc"},
		{Name: "ServiceCheck.PortLabel", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Expose", By: Around},
		{Name: "ServiceCheck.AddressMode", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Interval", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Timeout", By: "core/agent/alloc"},
		{Name: "ServiceCheck.InitialStatus", By: Around},
		{Name: "ServiceCheck.Notes", By: Around},
		{Name: "ServiceCheck.TLSServerName", By: "core/agent/alloc"},
		{Name: "ServiceCheck.TLSSkipVerify", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Method", By: "core/agent/alloc"},
		{Name: "ServiceCheck.Header", By: "core/agent/alloc"},
		{Name: "ServiceCheck.CheckRestart", Warn: "check_restart"},
		{Name: "ServiceCheck.GRPCService", By: Around},
		{Name: "ServiceCheck.GRPCUseTLS", By: Around},
		{Name: "ServiceCheck.TaskName", By: Around},
		{Name: "ServiceCheck.SuccessBeforePassing", By: Around},
		{Name: "ServiceCheck.FailuresBeforeCritical", By: Around},
		{Name: "ServiceCheck.FailuresBeforeWarning", By: Around},
		{Name: "ServiceCheck.Body", By: "core/agent/alloc"},
		{Name: "ServiceCheck.OnUpdate", By: Around},
	}
}
