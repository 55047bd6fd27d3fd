// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	attrpb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/attribute"
	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
	basepb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/plugin"
)

func nomadFingerprint(f *pb.FingerprintResponse) Fingerprint {
	out := Fingerprint{Attributes: map[string]string{}, HealthDescription: f.GetHealthDescription()}
	for name, a := range f.GetAttributes() {
		out.Attributes[name] = attributeText(a)
	}
	switch f.GetHealth() {
	case pb.FingerprintResponse_HEALTHY:
		out.Health = HealthHealthy
	case pb.FingerprintResponse_UNHEALTHY:
		out.Health = HealthUnhealthy
	default:
		out.Health = HealthUndetected
	}
	if f.GetErr() != "" {
		out.Health, out.HealthDescription = HealthUnhealthy, f.GetErr()
	}
	return out
}

func attributeText(a *attrpb.Attribute) string {
	var text string
	switch v := a.GetValue().(type) {
	case *attrpb.Attribute_StringVal:
		text = v.StringVal
	case *attrpb.Attribute_BoolVal:
		text = strconv.FormatBool(v.BoolVal)
	case *attrpb.Attribute_IntVal:
		text = strconv.FormatInt(v.IntVal, 10)
	case *attrpb.Attribute_FloatVal:
		text = strconv.FormatFloat(v.FloatVal, 'g', -1, 64)
	}
	if a.GetUnit() != "" {
		text += " " + a.GetUnit()
	}
	return text
}

func nomadTask(t *TaskConfig, config []byte) *pb.TaskConfig {
	out := &pb.TaskConfig{
		Id: t.ID, Name: t.Name, MsgpackDriverConfig: config, Env: t.Env, DeviceEnv: t.DeviceEnv, User: t.User, AllocDir: t.AllocDir,
		TaskGroupName: t.TaskGroup, JobName: t.JobName, JobId: t.JobID, Namespace: t.Namespace, AllocId: t.AllocID,
		NodeName: t.NodeName, NodeId: t.NodeID, Resources: nomadResources(t),
	}
	for _, m := range t.Mounts {
		out.Mounts = append(out.Mounts, &pb.Mount{
			TaskPath: m.TaskPath, HostPath: m.HostPath, Readonly: m.ReadOnly, PropagationMode: m.PropagationMode, SelinuxLabel: m.SELinuxLabel,
		})
	}
	for _, d := range t.Devices {
		out.Devices = append(out.Devices, &pb.Device{TaskPath: d.TaskPath, HostPath: d.HostPath, CgroupPermissions: d.Permissions})
	}
	out.NetworkIsolationSpec = nomadNetwork(t.Network)
	if t.DNS != nil {
		out.Dns = &pb.DNSConfig{Servers: t.DNS.Servers, Searches: t.DNS.Searches, Options: t.DNS.Options}
	}
	return out
}

// topology converts the machine's topology for the driver: its cores, their speed, and the
// distances between NUMA nodes.
func (d *nomadDriver) topology() *basepb.ClientTopology {
	out := &basepb.ClientTopology{Distances: &basepb.ClientTopologySLIT{}}
	if d.host.Topology == nil {
		return out
	}
	t := d.host.Topology()
	if t == nil {
		return out
	}
	out.OverrideTotalCompute, out.OverrideWitholdCompute = t.OverrideTotalCompute, t.OverrideWitholdCompute
	for _, n := range t.Nodes {
		out.NodeIds = append(out.NodeIds, uint32(n))
	}
	out.Distances.Dimension = uint32(len(t.Distances))
	for _, row := range t.Distances {
		for _, v := range row {
			out.Distances.Values = append(out.Distances.Values, uint32(v))
		}
	}
	for _, c := range t.Cores {
		grade := basepb.CoreGrade_Efficiency
		if c.Grade {
			grade = basepb.CoreGrade_Performance
		}
		out.Cores = append(out.Cores, &basepb.ClientTopologyCore{
			SocketId: uint32(c.SocketID), NodeId: uint32(c.NodeID), CoreId: uint32(c.ID), CoreGrade: grade, Disable: c.Disable,
			BaseSpeed: c.BaseSpeed, MaxSpeed: c.MaxSpeed, GuessSpeed: c.GuessSpeed,
		})
	}
	return out
}

// cpuPeriod is the period of the kernel's cpu bandwidth control in microseconds.
const cpuPeriod = 100_000

func nomadResources(t *TaskConfig) *pb.Resources {
	r := &t.Resources
	cores := make([]string, len(r.Cores))
	for i, c := range r.Cores {
		cores[i] = strconv.Itoa(c)
	}
	out := &pb.Resources{
		AllocatedResources: &pb.AllocatedTaskResources{
			Cpu:    &pb.AllocatedCpuResources{CpuShares: r.CPUMHz},
			Memory: &pb.AllocatedMemoryResources{MemoryMb: r.MemoryMB, MemoryMaxMb: r.MemoryMaxMB},
		},
		LinuxResources: &pb.LinuxResources{
			CpuPeriod: cpuPeriod, CpuQuota: int64(r.CPUPercent / 100 * cpuPeriod), CpuShares: r.CPUMHz, PercentTicks: r.CPUPercent / 100,
			MemoryLimitBytes: max(r.MemoryMB, r.MemoryMaxMB) << 20, CpusetCpus: strings.Join(cores, ","),
		},
	}
	if t.Cgroup != nil {
		out.LinuxResources.CpusetCgroup = t.Cgroup.Dirs["cpuset"]
	}
	network := &pb.NetworkResource{}
	for _, p := range t.Ports {
		network.Ip = p.HostIP
		network.ReservedPorts = append(network.ReservedPorts, &pb.NetworkPort{Label: p.Label, Value: int32(p.Value)})
		out.Ports = append(out.Ports, &pb.PortMapping{Label: p.Label, Value: int32(p.Value), To: int32(p.To), HostIp: p.HostIP})
	}
	if len(t.Ports) > 0 {
		out.AllocatedResources.Networks = []*pb.NetworkResource{network}
	}
	return out
}

func nomadOverride(n *pb.NetworkOverride) *NetworkOverride {
	if n == nil {
		return nil
	}
	out := &NetworkOverride{IP: n.GetAddr(), AutoAdvertise: n.GetAutoAdvertise(), PortMap: map[string]int{}}
	for label, port := range n.GetPortMap() {
		out.PortMap[label] = int(port)
	}
	return out
}

func nomadExit(r *pb.ExitResult) ExitResult {
	return ExitResult{ExitCode: int(r.GetExitCode()), Signal: int(r.GetSignal()), OOMKilled: r.GetOomKilled()}
}

func nomadStatus(r *pb.InspectTaskResponse) *TaskStatus {
	t := r.GetTask()
	out := &TaskStatus{ID: t.GetId(), StartedAt: nomadTime(t.GetStartedAt(), time.Time{}), Attributes: r.GetDriver().GetAttributes()}
	switch t.GetState() {
	case pb.TaskState_RUNNING:
		out.State = TaskRunning
	case pb.TaskState_EXITED:
		exit := nomadExit(t.GetResult())
		out.State, out.ExitedAt, out.Exit = TaskExited, nomadTime(t.GetCompletedAt(), time.Time{}), &exit
	default:
		out.State = TaskUnknown
	}
	return out
}

// nomadTime converts a time. If the plugin sends none, it returns absent.
func nomadTime(t *timestamppb.Timestamp, absent time.Time) time.Time {
	if t == nil {
		return absent
	}
	return t.AsTime()
}

func nomadStats(s *pb.TaskStats) TaskStats {
	use := s.GetAggResourceUsage()
	out := TaskStats{TaskID: s.GetId(), Time: nomadTime(s.GetTimestamp(), time.Now()), CPU: nomadCPU(use.GetCpu()), Memory: nomadMemory(use.GetMemory())}
	for pid, u := range s.GetResourceUsageByPid() {
		if out.Pids == nil {
			out.Pids = map[string]PidStats{}
		}
		out.Pids[pid] = PidStats{CPU: nomadCPU(u.GetCpu()), Memory: nomadMemory(u.GetMemory())}
	}
	return out
}

// measuredNames maps the protocol's names of measurements to the API's names.
var measuredNames = map[string]string{
	"SYSTEM_MODE": "System Mode", "USER_MODE": "User Mode", "TOTAL_TICKS": "Total Ticks", "THROTTLED_PERIODS": "Throttled Periods",
	"THROTTLED_TIME": "Throttled Time", "PERCENT": "Percent", "RSS": "RSS", "CACHE": "Cache", "MAX_USAGE": "Max Usage",
	"KERNEL_USAGE": "Kernel Usage", "KERNEL_MAX_USAGE": "Kernel Max Usage", "USAGE": "Usage", "SWAP": "Swap",
}

func measured[F fmt.Stringer](fields []F) []string {
	var out []string
	for _, f := range fields {
		if name := measuredNames[f.String()]; name != "" {
			out = append(out, name)
		}
	}
	return out
}

func nomadCPU(c *pb.CPUUsage) CPUStats {
	return CPUStats{
		Percent: c.GetPercent(), SystemMode: c.GetSystemMode(), UserMode: c.GetUserMode(), TotalTicks: c.GetTotalTicks(),
		ThrottledPeriods: c.GetThrottledPeriods(), ThrottledTime: c.GetThrottledTime(), Measured: measured(c.GetMeasuredFields()),
	}
}

func nomadMemory(m *pb.MemoryUsage) MemoryStats {
	return MemoryStats{
		RSS: m.GetRss(), Cache: m.GetCache(), Swap: m.GetSwap(), Usage: m.GetUsage(), MaxUsage: m.GetMaxUsage(),
		KernelUsage: m.GetKernelUsage(), KernelMaxUsage: m.GetKernelMaxUsage(), Measured: measured(m.GetMeasuredFields()),
	}
}
