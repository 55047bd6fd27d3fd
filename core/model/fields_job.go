// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"slices"
	"time"
)

// JobFields says how each field of a job is used. A commit that makes a field work
// must change its row.
func JobFields() []Field {
	return slices.Concat(fieldsOfJob(), fieldsOfPlacement(), fieldsOfGroup(), fieldsOfRollout(), fieldsOfTask(), fieldsOfResources(), fieldsOfFiles(), fieldsOfServices())
}

func fieldsOfJob() []Field {
	return []Field{
		{Name: "Job.Region", By: "core/endpoint"},
		{Name: "Job.Namespace", By: "core/endpoint"},
		{Name: "Job.ID", By: "core/state"},
		{Name: "Job.ParentID", By: Servers},
		{Name: "Job.Name", By: "core/taskenv"},
		{Name: "Job.Type", By: "core/schedule"},
		{Name: "Job.Priority", By: "core/model.NewEvaluation"},
		{Name: "Job.AllAtOnce", By: "core/schedule"},
		{Name: "Job.Datacenters", By: "core/schedule"},
		{Name: "Job.NodePool", By: "core/schedule"},
		{Name: "Job.Constraints", By: "core/schedule/feasible"},
		{Name: "Job.Affinities", By: "core/schedule"},
		{Name: "Job.Spreads", By: "core/schedule"},
		{Name: "Job.TaskGroups", By: "core/schedule/reconcile"},
		{Name: "Job.DependsOn", By: "core/schedule/reconcile"},
		{Name: "Job.Update", By: "core/jobspec", Warn: "update of a job whose type has no roll-outs", When: withoutRollouts},
		{Name: "Job.Multiregion", Warn: "multiregion", Refuse: "regions are not federated, so all of the job would run in this one, with counts that are not those of its regions; remove the block, and run the job in each region with its own count"},
		{Name: "Job.Periodic", By: "core/control/periodic"},
		{Name: "Job.ParameterizedJob", By: "core/endpoint"},
		{Name: "Job.Dispatched", By: Servers},
		{Name: "Job.DispatchIdempotencyToken", By: Servers},
		{Name: "Job.Payload", By: Servers},
		{Name: "Job.Meta", By: "core/taskenv"},
		{Name: "Job.ConsulNamespace", Warn: "Consul namespace of the job (use consul { namespace } of its groups)"},
		{Name: "Job.VaultNamespace", Warn: "Vault namespace of the job"},
		{Name: "Job.NomadTokenID", By: Servers},
		{Name: "Job.Status", By: Servers},
		{Name: "Job.StatusDescription", By: Servers},
		{Name: "Job.Stable", By: Servers},
		{Name: "Job.Stop", By: "core/schedule"},
		{Name: "Job.Version", By: Servers},
		{Name: "Job.SubmitTime", By: Servers},
		{Name: "Job.VersionTag", By: Servers},
		{Name: "Job.UI", By: ReadBack},
		{Name: "Job.CreateIndex", By: Servers},
		{Name: "Job.ModifyIndex", By: Servers},
		{Name: "Job.JobModifyIndex", By: Servers},

		{Name: "JobUIConfig.Description", By: ReadBack},
		{Name: "JobUIConfig.Links", By: ReadBack},
		{Name: "JobUILink.Label", By: ReadBack},
		{Name: "JobUILink.URL", By: ReadBack},

		{Name: "PeriodicConfig.Enabled", By: "core/model.IsPeriodicActive"},
		{Name: "PeriodicConfig.Spec", By: "core/model.Schedule"},
		{Name: "PeriodicConfig.Specs", By: "core/model.Schedule"},
		{Name: "PeriodicConfig.SpecType", By: "core/model.validateRules"}, // only one value is valid
		{Name: "PeriodicConfig.ProhibitOverlap", By: "core/control/periodic"},
		{Name: "PeriodicConfig.TimeZone", By: "core/model.Schedule"},
		{Name: "ParameterizedJobConfig.Payload", By: "core/endpoint"},
		{Name: "ParameterizedJobConfig.MetaRequired", By: "core/endpoint"},
		{Name: "ParameterizedJobConfig.MetaOptional", By: "core/endpoint"},
	}
}

// withoutRollouts reports whether a job's update block applies to no group.
func withoutRollouts(p Place) bool {
	u, ok := p.Value.(UpdateStrategy)
	return ok && !u.IsEmpty() && p.Job.Completes()
}

func fieldsOfPlacement() []Field {
	return []Field{
		{Name: "Constraint.LTarget", By: "core/schedule/feasible"},
		{Name: "Constraint.RTarget", By: "core/schedule/feasible"},
		{Name: "Constraint.Operand", By: "core/schedule/feasible"},
		{Name: "Affinity.LTarget", By: "core/schedule/feasible"},
		{Name: "Affinity.RTarget", By: "core/schedule/feasible"},
		{Name: "Affinity.Operand", By: "core/schedule/feasible"},
		{Name: "Affinity.Weight", By: "core/schedule/feasible"},
		{Name: "Spread.Attribute", By: "core/schedule"},
		{Name: "Spread.Weight", By: "core/schedule"},
		{Name: "Spread.SpreadTarget", By: "core/schedule"},
		{Name: "SpreadTarget.Value", By: "core/schedule"},
		{Name: "SpreadTarget.Percent", By: "core/schedule"},
	}
}

func fieldsOfGroup() []Field {
	return []Field{
		{Name: "TaskGroup.Name", By: "core/schedule"},
		{Name: "TaskGroup.Count", By: "core/schedule/reconcile"},
		{Name: "TaskGroup.Update", By: "core/schedule/reconcile"},
		{Name: "TaskGroup.Migrate", By: "core/control/drain"},
		{Name: "TaskGroup.Constraints", By: "core/schedule/feasible"},
		{Name: "TaskGroup.Affinities", By: "core/schedule"},
		{Name: "TaskGroup.Spreads", By: "core/schedule"},
		{Name: "TaskGroup.RestartPolicy", By: "core/agent/alloc"},
		{Name: "TaskGroup.ReschedulePolicy", By: "core/schedule"},
		{Name: "TaskGroup.Disconnect", By: "core/schedule/reconcile"},
		{Name: "TaskGroup.EphemeralDisk", By: "core/schedule/feasible"},
		{Name: "TaskGroup.Scaling", By: "core/endpoint"},
		{Name: "TaskGroup.Tasks", By: "core/agent/alloc"},
		{Name: "TaskGroup.DependsOn", By: "core/schedule/reconcile"},
		{Name: "TaskGroup.Networks", By: "core/schedule/feasible"},
		{Name: "TaskGroup.Services", By: "core/services"},
		{Name: "TaskGroup.Volumes", By: "core/schedule/feasible"},
		{Name: "TaskGroup.Consul", By: "core/services"},
		{Name: "Consul.Namespace", By: "core/services"},
		{Name: "Consul.Cluster", By: "core/services"},
		{Name: "Consul.Partition", By: "core/services"},
		{Name: "TaskGroup.Meta", By: "core/taskenv"},
		{Name: "TaskGroup.ShutdownDelay", By: "core/agent/alloc"},
		{Name: "TaskGroup.MaxRunDuration", By: "core/agent/task"},
		{Name: "TaskGroup.StopAfterClientDisconnect", By: "core/agent/alloc"},
		{Name: "TaskGroup.MaxClientDisconnect", By: "core/schedule/reconcile"},
		{Name: "TaskGroup.PreventRescheduleOnLost", By: "core/schedule/reconcile"},

		{Name: "DisconnectStrategy.LostAfter", By: "core/schedule/reconcile"},
		{Name: "DisconnectStrategy.StopOnClientAfter", By: "core/agent/alloc"},
		{Name: "DisconnectStrategy.Replace", By: "core/schedule/reconcile"},
		{Name: "DisconnectStrategy.Reconcile", By: "core/schedule/reconcile"},
		{Name: "EphemeralDisk.Sticky", By: "core/agent/alloc"},
		{Name: "EphemeralDisk.Migrate", By: "core/agent/alloc", Warn: "migrate of ephemeral_disk without sticky", When: withoutSticky},
		{Name: "EphemeralDisk.SizeMB", By: "core/schedule/feasible"},
		{Name: "ScalingPolicy.ID", By: Servers},
		{Name: "ScalingPolicy.Type", By: ReadBack},
		{Name: "ScalingPolicy.Target", By: Servers},
		{Name: "ScalingPolicy.Policy", By: ReadBack},
		{Name: "ScalingPolicy.Min", By: "core/endpoint"},
		{Name: "ScalingPolicy.Max", By: "core/endpoint"},
		{Name: "ScalingPolicy.Enabled", By: ReadBack},
		{Name: "ScalingPolicy.CreateIndex", By: Servers},
		{Name: "ScalingPolicy.ModifyIndex", By: Servers},
		{Name: "VolumeRequest.Name", By: ReadBack},
		{Name: "VolumeRequest.Type", By: "core/model.IsCSI"},
		{Name: "VolumeRequest.Source", By: "core/schedule/feasible"},
		{Name: "VolumeRequest.ReadOnly", By: "core/model.Writes"},
		{Name: "VolumeRequest.Sticky", By: "core/schedule/feasible"},
		{Name: "VolumeRequest.AccessMode", By: "core/model.Modes"},
		{Name: "VolumeRequest.AttachmentMode", By: "core/model.Modes"},
		{Name: "VolumeRequest.MountOptions", By: "core/endpoint"},
		{Name: "VolumeRequest.PerAlloc", By: "core/model.VolumeName"},
		{Name: "CSIMountOptions.FSType", By: "core/model.Merge"},
		{Name: "CSIMountOptions.MountFlags", By: "core/model.Merge"},
	}
}

// withoutSticky reports whether the disk of the place's group is not sticky.
func withoutSticky(p Place) bool {
	return p.Group == nil || p.Group.EphemeralDisk == nil || !p.Group.EphemeralDisk.Sticky
}

func fieldsOfRollout() []Field {
	return []Field{
		{Name: "UpdateStrategy.Stagger", Warn: "stagger of update", When: func(p Place) bool { return p.Group != nil && p.Value != defaultStagger }},
		{Name: "UpdateStrategy.MaxParallel", By: "core/schedule/reconcile"},
		{Name: "UpdateStrategy.HealthCheck", By: "core/agent/alloc"},
		{Name: "UpdateStrategy.MinHealthyTime", By: "core/agent/alloc"},
		{Name: "UpdateStrategy.HealthyDeadline", By: "core/agent/alloc"},
		{Name: "UpdateStrategy.ProgressDeadline", By: "core/schedule/reconcile"},
		{Name: "UpdateStrategy.AutoRevert", By: "core/schedule/reconcile"},
		{Name: "UpdateStrategy.AutoPromote", By: "core/schedule/reconcile"},
		{Name: "UpdateStrategy.Canary", By: "core/schedule/reconcile", Warn: "canary of update with max_parallel = 0", When: func(p Place) bool { return p.Group != nil && p.Group.Update.IsEmpty() }},
		{Name: "UpdateStrategy.Resources", By: "core/schedule/reconcile"},
		{Name: "MigrateStrategy.MaxParallel", By: "core/control/drain"},
		{Name: "MigrateStrategy.HealthCheck", By: "core/agent/alloc"},
		{Name: "MigrateStrategy.MinHealthyTime", By: "core/agent/alloc"},
		{Name: "MigrateStrategy.HealthyDeadline", By: "core/agent/alloc"},
		{Name: "RestartPolicy.Attempts", By: "core/agent/task"},
		{Name: "RestartPolicy.Interval", By: "core/agent/task"},
		{Name: "RestartPolicy.Delay", By: "core/agent/task"},
		{Name: "RestartPolicy.Mode", By: "core/agent/task"},
		{Name: "RestartPolicy.RenderTemplates", By: "core/agent/alloc"},
		{Name: "ReschedulePolicy.Attempts", By: "core/schedule/reconcile"},
		{Name: "ReschedulePolicy.Interval", By: "core/schedule/reconcile"},
		{Name: "ReschedulePolicy.Delay", By: "core/schedule/reconcile"},
		{Name: "ReschedulePolicy.DelayFunction", By: "core/schedule/reconcile"},
		{Name: "ReschedulePolicy.MaxDelay", By: "core/schedule/reconcile"},
		{Name: "ReschedulePolicy.Unlimited", By: "core/schedule/reconcile"},
	}
}

// defaultStagger is the stagger of update blocks that do not set one.
const defaultStagger = 30 * time.Second
