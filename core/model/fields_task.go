// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "slices"

func fieldsOfTask() []Field {
	return []Field{
		{Name: "Task.Name", By: "core/agent/alloc"},
		{Name: "Task.Driver", By: "core/agent/alloc"},
		{Name: "Task.User", By: "core/agent/alloc"},
		{Name: "Task.Config", By: "core/agent/alloc"},
		{Name: "Task.Env", By: "core/taskenv"},
		{Name: "Task.Services", By: "core/services"},
		{Name: "Task.Vault", Warn: "vault (no node has Vault yet, so nothing of the group is placed; take the block out, and use variables or identities)"},
		{Name: "Task.Consul", By: "core/services"},
		{Name: "Task.Templates", By: "core/agent/alloc"},
		{Name: "Task.Constraints", By: "core/schedule/feasible"},
		{Name: "Task.Affinities", By: "core/schedule"},
		{Name: "Task.Resources", By: "core/schedule/feasible"},
		{Name: "Task.RestartPolicy", By: "core/agent/alloc"},
		{Name: "Task.DispatchPayload", By: "core/agent/alloc", Warn: "dispatch_payload of a job that gets no payload", When: withoutPayload},
		{Name: "Task.Lifecycle", By: "core/agent/task"},
		{Name: "Task.Meta", By: "core/taskenv"},
		{Name: "Task.KillTimeout", By: "core/agent/alloc"},
		{Name: "Task.KillSignal", By: "core/agent/alloc"},
		{Name: "Task.LogConfig", By: "core/agent/alloc"},
		{Name: "Task.Artifacts", By: "core/agent/alloc"},
		{Name: "Task.Leader", By: "core/agent/task"},
		{Name: "Task.ShutdownDelay", By: "core/agent/alloc"},
		{Name: "Task.VolumeMounts", By: "core/agent/alloc"},
		{Name: "Task.ScalingPolicies", By: "core/api"}, // listed for autoscalers
		{Name: "Task.Kind", Warn: "kind"},
		{Name: "Task.CSIPluginConfig", By: "core/agent/alloc"},
		{Name: "Task.Identity", By: "core/model.AllIdentities"},
		{Name: "Task.Identities", By: "core/model.AllIdentities"},
		{Name: "Task.Actions", By: "core/agent/serve"},
		{Name: "Task.Schedule", By: "core/agent/alloc"},
		{Name: "Task.Secrets", Warn: "secret", Refuse: `nothing fetches it, and the task would get "${secret.NAME.KEY}" as it is written; write a template with nomadVar, env = true and a destination in secrets/`},
		{Name: "Task.DependsOn", By: "core/agent/task"},

		{Name: "TaskCSIPluginConfig.ID", By: "core/agent/storage"},
		{Name: "TaskCSIPluginConfig.Type", By: "core/agent/storage"},
		{Name: "TaskCSIPluginConfig.MountDir", By: "core/agent/storage"},
		{Name: "TaskCSIPluginConfig.StagePublishBaseDir", By: "core/agent/storage"},
		{Name: "TaskCSIPluginConfig.HealthTimeout", By: "core/agent/storage"},
		{Name: "TaskLifecycleConfig.Hook", By: "core/agent/task"},
		{Name: "TaskLifecycleConfig.Sidecar", By: "core/agent/task", Warn: "sidecar of lifecycle poststop (it runs when the other tasks have ended)", When: ofPoststop},
		{Name: "TaskSchedule.Cron", By: "core/model.Window"},
		{Name: "TaskScheduleCron.Start", By: "core/model.Window"},
		{Name: "TaskScheduleCron.End", By: "core/model.Window"},
		{Name: "TaskScheduleCron.Timezone", By: "core/model.Window"},
		{Name: "Dependency.Name", By: "core/agent/task"},
		{Name: "Dependency.Condition", By: "core/agent/task"},
		{Name: "Dependency.Timeout", By: "core/agent/task"},
		{Name: "DispatchPayloadConfig.File", By: "core/agent/alloc"},
		{Name: "LogConfig.MaxFiles", By: "core/agent/alloc"},
		{Name: "LogConfig.MaxFileSizeMB", By: "core/agent/alloc"},
		{Name: "LogConfig.Disabled", By: "core/agent/alloc"},
		{Name: "Action.Name", By: "core/agent/serve"},
		{Name: "Action.Command", By: "core/agent/serve"},
		{Name: "Action.Args", By: "core/agent/serve"},
		{Name: "VolumeMount.Volume", By: "core/agent/alloc"},
		{Name: "VolumeMount.Destination", By: "core/agent/alloc"},
		{Name: "VolumeMount.ReadOnly", By: "core/agent/alloc"},
		{Name: "VolumeMount.PropagationMode", By: "core/agent/alloc"},
		{Name: "VolumeMount.SELinuxLabel", By: "core/agent/alloc"},

		{Name: "WorkloadIdentity.Name", By: "core/auth/identity", Warn: "identity %v, which the task is given neither as env nor as file", When: notShown},
		{Name: "WorkloadIdentity.Audience", By: "core/auth/identity"},
		{Name: "WorkloadIdentity.ChangeMode", By: "core/agent/alloc"},
		{Name: "WorkloadIdentity.ChangeSignal", By: "core/agent/alloc"},
		{Name: "WorkloadIdentity.Env", By: "core/model.Shown", Warn: "env of identity of service (only the node uses its token)", When: ofService},
		{Name: "WorkloadIdentity.File", By: "core/model.Shown", Warn: "file of identity of service (only the node uses its token)", When: ofService},
		{Name: "WorkloadIdentity.Filepath", By: "core/model.Path"},
		{Name: "WorkloadIdentity.ServiceName", By: "core/auth/identity"},
		{Name: "WorkloadIdentity.TTL", By: "core/auth/identity"},
		{Name: "WorkloadIdentity.ExtraClaims", By: "core/model.Claims"},
	}
}

// notShown reports whether a named identity has no effect: the task does not get its token,
// and the agent itself asks no other service that would need it.
func notShown(p Place) bool {
	name, _ := p.Value.(string)
	if p.Task == nil || name == DefaultIdentity {
		return false
	}
	i := p.Task.IdentityByName(name)
	if i == nil || p.Group != nil && name == ConsulIdentity(p.Group.ConsulCluster(p.Task)) {
		return false // of a service, or the node logs in at Consul with it
	}
	return !i.Shown()
}

// ofService reports whether the place is of a service.
func ofService(p Place) bool { return p.Service != nil }

// withoutPayload reports whether nobody can dispatch the place's job with a payload.
func withoutPayload(p Place) bool {
	return p.Job.ParameterizedJob == nil || p.Job.ParameterizedJob.Payload == "forbidden"
}

func fieldsOfResources() []Field {
	return []Field{
		{Name: "Resources.CPU", By: "core/schedule/feasible"},
		{Name: "Resources.Cores", By: "core/schedule/feasible"},
		{Name: "Resources.MemoryMB", By: "core/schedule/feasible"},
		{Name: "Resources.MemoryMaxMB", By: "core/schedule/feasible"},
		{Name: "Resources.DiskMB", Warn: "disk of resources (use ephemeral_disk)"},
		{Name: "Resources.IOPS", Warn: "iops of resources"},
		{Name: "Resources.SecretsMB", By: "core/agent/alloc"},
		{Name: "Resources.Networks", By: "core/schedule/feasible"},
		{Name: "Resources.Devices", By: "core/schedule/feasible"},
		{Name: "Resources.NUMA", By: "core/schedule/feasible"},
		{Name: "NUMA.Affinity", By: "core/schedule/feasible", Warn: "numa affinity %v without cores or devices of numa", When: func(p Place) bool {
			return p.Value != NUMANone && p.Task != nil && !p.Task.Resources.NUMAActs()
		}},
		{Name: "NUMA.Devices", By: "core/schedule/feasible"},
		{Name: "RequestedDevice.Name", By: "core/schedule/feasible"},
		{Name: "RequestedDevice.Count", By: "core/schedule/feasible"},
		{Name: "RequestedDevice.Constraints", By: "core/schedule/feasible"},
		{Name: "RequestedDevice.Affinities", By: "core/schedule/feasible"},
		{Name: "RequestedDevice.Config", By: "core/agent/alloc"},

		{Name: "NetworkResource.Mode", By: "core/schedule/feasible", Warn: "network mode %v (use the group's)", When: ofItsOwnInTask},
		{Name: "NetworkResource.Device", Warn: "device of network"},
		{Name: "NetworkResource.CIDR", Warn: "cidr of network"},
		{Name: "NetworkResource.IP", By: "core/schedule/feasible", Warn: "ip of network"},
		{Name: "NetworkResource.Hostname", By: "core/agent/alloc", Warn: "hostname of the node's network", When: ofNode},
		{Name: "NetworkResource.MBits", Warn: "mbits of network"},
		{Name: "NetworkResource.DNS", By: "core/agent/alloc", Warn: "dns of the network of a task (use the group's)", When: inTask},
		{Name: "NetworkResource.ReservedPorts", By: "core/schedule/feasible"},
		{Name: "NetworkResource.DynamicPorts", By: "core/schedule/feasible"},
		{Name: "NetworkResource.CNI", By: "core/agent/alloc", Warn: "cni of the node's network", When: ofNode},
		{Name: "CNIConfig.Args", By: "core/agent/alloc"},
		{Name: "DNSConfig.Servers", By: "core/agent/alloc"},
		{Name: "DNSConfig.Searches", By: "core/agent/alloc"},
		{Name: "DNSConfig.Options", By: "core/agent/alloc"},
		{Name: "Port.Label", By: "core/schedule/feasible"},
		{Name: "Port.Value", By: "core/schedule/feasible"},
		{Name: "Port.To", By: "core/schedule/feasible"},
		{Name: "Port.HostNetwork", By: "core/schedule/feasible"},
		{Name: "Port.IgnoreCollision", By: "core/schedule/feasible", Warn: "ignore_collision of a port without static", When: ofDynamicPort},
	}
}

// ofDynamicPort reports whether the place is of a port whose number a node chooses.
func ofDynamicPort(p Place) bool {
	port, ok := p.Of.(*Port)
	return ok && port.Value == 0
}

func inTask(p Place) bool { return p.Task != nil }

// ofItsOwnInTask reports whether the network of a task is separate from the node's: only
// a group can have one.
func ofItsOwnInTask(p Place) bool {
	mode, _ := p.Value.(string)
	return p.Task != nil && mode != "host"
}

// ofNode reports whether a network is the node's own, which has no hostname and no
// arguments for an alloc.
func ofNode(p Place) bool {
	return p.Task != nil || p.Group == nil || len(p.Group.Networks) == 0 || slices.Contains([]string{"", "host"}, p.Group.Networks[0].Mode)
}

// ofPoststop reports whether the place is of a task that runs after the others.
func ofPoststop(p Place) bool {
	l, ok := p.Of.(*TaskLifecycleConfig)
	return ok && l.Hook == TaskLifecycleHookPoststop
}

// changeIsNot returns a condition: the template of the field has another change_mode.
func changeIsNot(mode string) func(Place) bool {
	return func(p Place) bool {
		t, ok := p.Of.(*Template)
		return ok && t.ChangeMode != mode
	}
}

func fieldsOfFiles() []Field {
	return []Field{
		{Name: "TaskArtifact.GetterSource", By: "core/agent/artifact"},
		{Name: "TaskArtifact.GetterOptions", By: "core/agent/artifact"},
		{Name: "TaskArtifact.GetterHeaders", By: "core/agent/artifact"},
		{Name: "TaskArtifact.GetterMode", By: "core/agent/artifact"},
		{Name: "TaskArtifact.GetterInsecure", By: "core/agent/artifact"},
		{Name: "TaskArtifact.RelativeDest", By: "core/agent/artifact"},
		{Name: "TaskArtifact.Chown", By: "core/agent/artifact"},
		{Name: "Template.SourcePath", By: "core/agent/template"},
		{Name: "Template.DestPath", By: "core/agent/template"},
		{Name: "Template.EmbeddedTmpl", By: "core/agent/template"},
		{Name: "Template.ChangeMode", By: "core/agent/template"},
		{Name: "Template.ChangeSignal", By: "core/agent/template", Warn: "change_signal of template without change_mode signal", When: changeIsNot("signal")},
		{Name: "Template.ChangeScript", By: "core/agent/alloc", Warn: "change_script of template without change_mode script", When: changeIsNot("script")},
		{Name: "Template.Splay", By: "core/agent/template"},
		{Name: "Template.Once", By: "core/agent/template"},
		{Name: "Template.Perms", By: "core/agent/template"},
		{Name: "Template.Uid", By: "core/agent/template"},
		{Name: "Template.Gid", By: "core/agent/template"},
		{Name: "Template.LeftDelim", By: "core/agent/template"},
		{Name: "Template.RightDelim", By: "core/agent/template"},
		{Name: "Template.Envvars", By: "core/agent/template"},
		{Name: "Template.VaultGrace", Warn: "vault_grace of template"},
		{Name: "Template.Wait", By: "core/agent/template"},
		{Name: "Template.ErrMissingKey", By: "core/agent/template"},
		{Name: "ChangeScript.Command", By: "core/agent/alloc"},
		{Name: "ChangeScript.Args", By: "core/agent/alloc"},
		{Name: "ChangeScript.Timeout", By: "core/agent/alloc"},
		{Name: "ChangeScript.FailOnError", By: "core/agent/alloc"},
		{Name: "ChangeScript.RunOnFirstRender", By: "core/agent/alloc"},
		{Name: "WaitConfig.Min", By: "core/agent/template"},
		{Name: "WaitConfig.Max", By: "core/agent/template"},
	}
}
