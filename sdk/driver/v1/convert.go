// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"

	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

// Conversions between the types of the contract and the types of the wire form.

func infoToPB(d Driver) (*driverv1.Info, error) {
	in := d.Info()
	config, err := json.Marshal(in.ConfigSchema)
	if err != nil {
		return nil, fmt.Errorf("encode the config schema of driver %q: %w", in.Name, err)
	}
	task, err := json.Marshal(in.TaskConfigSchema)
	if err != nil {
		return nil, fmt.Errorf("encode the task config schema of driver %q: %w", in.Name, err)
	}
	c := in.Capabilities
	modes := make([]string, len(c.NetworkModes))
	for i, m := range c.NetworkModes {
		modes[i] = string(m)
	}
	return &driverv1.Info{
		Name: in.Name, ConfigSchema: config, TaskConfigSchema: task, Features: feature.Strings(Features(d)),
		Capabilities: &driverv1.Capabilities{
			SendSignals: c.SendSignals, Exec: c.Exec, FsIsolation: string(c.FSIsolation), NetworkModes: modes,
			MountConfigs: c.MountConfigs, DisableLogCollection: c.DisableLogCollection, DefaultUser: c.DefaultUser, UnknownUser: c.UnknownUser, DynamicUsers: c.DynamicUsers, OnDemand: c.OnDemand, Ignores: c.Ignores,
			HostCgroup: string(c.HostCgroup), ExecOptions: c.ExecOptions, SecretEnv: c.SecretEnv,
		},
	}, nil
}

func infoFromPB(in *driverv1.Info) (Info, error) {
	c := in.GetCapabilities()
	out := Info{Name: in.GetName(), Features: feature.Parse[Feature](in.GetFeatures()), Capabilities: Capabilities{
		SendSignals: c.GetSendSignals(), Exec: c.GetExec(), FSIsolation: FSIsolation(c.GetFsIsolation()),
		MountConfigs: c.GetMountConfigs(), DisableLogCollection: c.GetDisableLogCollection(), DefaultUser: c.GetDefaultUser(), UnknownUser: c.GetUnknownUser(), DynamicUsers: c.GetDynamicUsers(), OnDemand: c.GetOnDemand(), Ignores: c.GetIgnores(),
		HostCgroup: HostCgroup(c.GetHostCgroup()), ExecOptions: c.GetExecOptions(), SecretEnv: c.GetSecretEnv(),
	}}
	for _, m := range c.GetNetworkModes() {
		out.Capabilities.NetworkModes = append(out.Capabilities.NetworkModes, NetworkMode(m))
	}
	var err error
	if out.ConfigSchema, err = schema.Parse(in.GetConfigSchema()); err != nil {
		return Info{}, fmt.Errorf("the config schema of driver %q: %w", out.Name, err)
	}
	if out.TaskConfigSchema, err = schema.Parse(in.GetTaskConfigSchema()); err != nil {
		return Info{}, fmt.Errorf("the task config schema of driver %q: %w", out.Name, err)
	}
	return out, nil
}

func taskToPB(t *TaskConfig) *driverv1.TaskConfig {
	out := &driverv1.TaskConfig{
		Id: t.ID, Name: t.Name, Namespace: t.Namespace, JobId: t.JobID, JobName: t.JobName, TaskGroup: t.TaskGroup,
		AllocId: t.AllocID, AllocName: t.AllocName, NodeId: t.NodeID, NodeName: t.NodeName,
		DriverConfig: t.DriverConfig, Env: t.Env, SecretEnv: t.SecretEnv, User: t.User,
		Resources: resourcesToPB(t.Resources),
		AllocDir:  t.AllocDir, TaskDir: t.TaskDir,
		Logs: &driverv1.LogConfig{
			StdoutPath: t.Logs.StdoutPath, StderrPath: t.Logs.StderrPath, MaxFiles: int32(t.Logs.MaxFiles),
			MaxFileSizeMb: int32(t.Logs.MaxFileSizeMB), Disabled: t.Logs.Disabled,
		},
		KillSignal: t.KillSignal, KillTimeout: durationpb.New(t.KillTimeout), CdiDevices: t.CDIDevices, DeviceEnv: t.DeviceEnv, DynamicUid: uint32(t.DynamicUID),
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, &driverv1.Mount{HostPath: m.HostPath, TaskPath: m.TaskPath, ReadOnly: m.ReadOnly,
			PropagationMode: m.PropagationMode, SelinuxLabel: m.SELinuxLabel})
	}
	for _, d := range t.Devices {
		out.Devices = append(out.Devices, &driverv1.Device{HostPath: d.HostPath, TaskPath: d.TaskPath, Permissions: d.Permissions})
	}
	for _, p := range t.Ports {
		out.Ports = append(out.Ports, &driverv1.Port{Label: p.Label, Value: int32(p.Value), To: int32(p.To), HostIp: p.HostIP})
	}
	out.Network = networkToPB(t.Network)
	if c := t.Cgroup; c != nil {
		out.Cgroup = &driverv1.Cgroup{Version: uint32(c.Version), Dirs: c.Dirs}
	}
	if d := t.DNS; d != nil {
		out.Dns = &driverv1.DNSConfig{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
	}
	return out
}

func taskFromPB(t *driverv1.TaskConfig) *TaskConfig {
	l := t.GetLogs()
	out := &TaskConfig{
		ID: t.GetId(), Name: t.GetName(), Namespace: t.GetNamespace(), JobID: t.GetJobId(), JobName: t.GetJobName(),
		TaskGroup: t.GetTaskGroup(), AllocID: t.GetAllocId(), AllocName: t.GetAllocName(), NodeID: t.GetNodeId(), NodeName: t.GetNodeName(),
		DriverConfig: t.GetDriverConfig(), Env: t.GetEnv(), SecretEnv: t.GetSecretEnv(), User: t.GetUser(),
		Resources: resourcesFromPB(t.GetResources()),
		AllocDir:  t.GetAllocDir(), TaskDir: t.GetTaskDir(),
		Logs: LogConfig{
			StdoutPath: l.GetStdoutPath(), StderrPath: l.GetStderrPath(), MaxFiles: int(l.GetMaxFiles()),
			MaxFileSizeMB: int(l.GetMaxFileSizeMb()), Disabled: l.GetDisabled(),
		},
		KillSignal: t.GetKillSignal(), KillTimeout: t.GetKillTimeout().AsDuration(), CDIDevices: t.GetCdiDevices(), DeviceEnv: t.GetDeviceEnv(), DynamicUID: int(t.GetDynamicUid()),
	}
	for _, m := range t.GetMounts() {
		out.Mounts = append(out.Mounts, Mount{HostPath: m.GetHostPath(), TaskPath: m.GetTaskPath(), ReadOnly: m.GetReadOnly(),
			PropagationMode: m.GetPropagationMode(), SELinuxLabel: m.GetSelinuxLabel()})
	}
	for _, d := range t.GetDevices() {
		out.Devices = append(out.Devices, Device{HostPath: d.GetHostPath(), TaskPath: d.GetTaskPath(), Permissions: d.GetPermissions()})
	}
	for _, p := range t.GetPorts() {
		out.Ports = append(out.Ports, Port{Label: p.GetLabel(), Value: int(p.GetValue()), To: int(p.GetTo()), HostIP: p.GetHostIp()})
	}
	out.Network = networkFromPB(t.GetNetwork())
	if c := t.GetCgroup(); c != nil {
		out.Cgroup = &Cgroup{Version: int(c.GetVersion()), Dirs: c.GetDirs()}
	}
	if d := t.GetDns(); d != nil {
		out.DNS = &DNSConfig{Servers: d.GetServers(), Searches: d.GetSearches(), Options: d.GetOptions()}
	}
	return out
}

func handleToPB(h *Handle) *driverv1.Handle {
	if h == nil {
		return nil
	}
	return &driverv1.Handle{TaskId: h.TaskID, Version: int32(h.Version), State: h.State}
}

func handleFromPB(h *driverv1.Handle) *Handle {
	if h == nil {
		return nil
	}
	return &Handle{TaskID: h.GetTaskId(), Version: int(h.GetVersion()), State: h.GetState()}
}

func overrideToPB(n *NetworkOverride) *driverv1.NetworkOverride {
	if n == nil {
		return nil
	}
	out := &driverv1.NetworkOverride{Ip: n.IP, AutoAdvertise: n.AutoAdvertise, PortMap: make(map[string]int32, len(n.PortMap))}
	for k, v := range n.PortMap {
		out.PortMap[k] = int32(v)
	}
	return out
}

func overrideFromPB(n *driverv1.NetworkOverride) *NetworkOverride {
	if n == nil {
		return nil
	}
	out := &NetworkOverride{IP: n.GetIp(), AutoAdvertise: n.GetAutoAdvertise(), PortMap: make(map[string]int, len(n.GetPortMap()))}
	for k, v := range n.GetPortMap() {
		out.PortMap[k] = int(v)
	}
	return out
}

func exitToPB(r ExitResult) *driverv1.ExitResult {
	return &driverv1.ExitResult{ExitCode: int32(r.ExitCode), Signal: int32(r.Signal), OomKilled: r.OOMKilled, Err: r.Err}
}

func exitFromPB(r *driverv1.ExitResult) ExitResult {
	return ExitResult{ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), OOMKilled: r.GetOomKilled(), Err: r.GetErr()}
}

func statusToPB(s *TaskStatus) *driverv1.TaskStatus {
	out := &driverv1.TaskStatus{Id: s.ID, State: string(s.State), Paused: s.Paused, StartedAt: timeToPB(s.StartedAt), ExitedAt: timeToPB(s.ExitedAt), Attributes: s.Attributes}
	if s.Exit != nil {
		out.Exit = exitToPB(*s.Exit)
	}
	return out
}

func statusFromPB(s *driverv1.TaskStatus) *TaskStatus {
	out := &TaskStatus{ID: s.GetId(), State: TaskState(s.GetState()), Paused: s.GetPaused(), StartedAt: timeFromPB(s.GetStartedAt()), ExitedAt: timeFromPB(s.GetExitedAt()), Attributes: s.GetAttributes()}
	if s.GetExit() != nil {
		r := exitFromPB(s.GetExit())
		out.Exit = &r
	}
	return out
}

func usageToPB(c CPUStats, m MemoryStats) *driverv1.Usage {
	return &driverv1.Usage{
		Cpu: &driverv1.CPUStats{Percent: c.Percent, SystemMode: c.SystemMode, UserMode: c.UserMode, TotalTicks: c.TotalTicks,
			ThrottledPeriods: c.ThrottledPeriods, ThrottledTime: c.ThrottledTime, Measured: c.Measured},
		Memory: &driverv1.MemoryStats{Rss: m.RSS, Cache: m.Cache, Swap: m.Swap, MappedFile: m.MappedFile, Usage: m.Usage,
			MaxUsage: m.MaxUsage, KernelUsage: m.KernelUsage, KernelMaxUsage: m.KernelMaxUsage, Measured: m.Measured},
	}
}

func usageFromPB(u *driverv1.Usage) (CPUStats, MemoryStats) {
	c, m := u.GetCpu(), u.GetMemory()
	return CPUStats{Percent: c.GetPercent(), SystemMode: c.GetSystemMode(), UserMode: c.GetUserMode(), TotalTicks: c.GetTotalTicks(),
			ThrottledPeriods: c.GetThrottledPeriods(), ThrottledTime: c.GetThrottledTime(), Measured: c.GetMeasured()},
		MemoryStats{RSS: m.GetRss(), Cache: m.GetCache(), Swap: m.GetSwap(), MappedFile: m.GetMappedFile(), Usage: m.GetUsage(),
			MaxUsage: m.GetMaxUsage(), KernelUsage: m.GetKernelUsage(), KernelMaxUsage: m.GetKernelMaxUsage(), Measured: m.GetMeasured()}
}

func ioToPB(s IOStats) *driverv1.IOStats {
	if len(s.Measured) == 0 {
		return nil
	}
	return &driverv1.IOStats{ReadBytes: s.ReadBytes, WrittenBytes: s.WrittenBytes, Reads: s.Reads, Writes: s.Writes, Measured: s.Measured}
}

func ioFromPB(s *driverv1.IOStats) IOStats {
	return IOStats{ReadBytes: s.GetReadBytes(), WrittenBytes: s.GetWrittenBytes(), Reads: s.GetReads(), Writes: s.GetWrites(), Measured: s.GetMeasured()}
}

func statsToPB(in []TaskStats) *driverv1.TaskStatsResponse {
	out := &driverv1.TaskStatsResponse{Stats: make([]*driverv1.TaskStats, 0, len(in))}
	for _, s := range in {
		pb := &driverv1.TaskStats{TaskId: s.TaskID, Time: timeToPB(s.Time), Total: usageToPB(s.CPU, s.Memory), Io: ioToPB(s.IO), Processes: s.Processes}
		pb.Pids = pidsToPB(s.Pids)
		out.Stats = append(out.Stats, pb)
	}
	return out
}

func statsFromPB(in *driverv1.TaskStatsResponse) []TaskStats {
	out := make([]TaskStats, 0, len(in.GetStats()))
	for _, s := range in.GetStats() {
		t := TaskStats{TaskID: s.GetTaskId(), Time: timeFromPB(s.GetTime()), IO: ioFromPB(s.GetIo()), Processes: s.GetProcesses()}
		t.CPU, t.Memory = usageFromPB(s.GetTotal())
		t.Pids = pidsFromPB(s.GetPids())
		out = append(out, t)
	}
	return out
}

func sizeToPB(s TerminalSize) *driverv1.TerminalSize {
	return &driverv1.TerminalSize{Height: int32(s.Height), Width: int32(s.Width)}
}

func sizeFromPB(s *driverv1.TerminalSize) TerminalSize {
	return TerminalSize{Height: int(s.GetHeight()), Width: int(s.GetWidth())}
}

// timeToPB maps the zero time to nil, which timestamppb alone would not.
func timeToPB(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFromPB(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

func int32s(in []int) []int32 {
	if in == nil {
		return nil
	}
	out := make([]int32, len(in))
	for i, v := range in {
		out[i] = int32(v)
	}
	return out
}

func ints(in []int32) []int {
	if in == nil {
		return nil
	}
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = int(v)
	}
	return out
}

func resourcesToPB(r Resources) *driverv1.Resources {
	return &driverv1.Resources{
		CpuMhz: r.CPUMHz, CpuPercent: r.CPUPercent, Cores: int32s(r.Cores), MemoryMb: r.MemoryMB, MemoryMaxMb: r.MemoryMaxMB,
		SharedCores: int32s(r.SharedCores),
	}
}

func resourcesFromPB(r *driverv1.Resources) Resources {
	return Resources{
		CPUMHz: r.GetCpuMhz(), CPUPercent: r.GetCpuPercent(), Cores: ints(r.GetCores()), MemoryMB: r.GetMemoryMb(), MemoryMaxMB: r.GetMemoryMaxMb(),
		SharedCores: ints(r.GetSharedCores()),
	}
}
