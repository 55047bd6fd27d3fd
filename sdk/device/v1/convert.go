// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package device

import (
	"encoding/json"
	"fmt"
	"math"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/drover-project/drover/sdk/internal/pb/device/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

func infoToPB(d Device) (*pb.Info, error) {
	i := d.Info()
	body, err := json.Marshal(i.ConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the config schema of %q: %w", i.Name, err)
	}
	task, err := json.Marshal(i.TaskConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the schema of %q for the config of a device: %w", i.Name, err)
	}
	return &pb.Info{Name: i.Name, ConfigSchema: body, TaskConfigSchema: task, Features: feature.Strings(Features(d))}, nil
}

func infoFromPB(m *pb.Info) (Info, error) {
	i := Info{Name: m.GetName(), Features: feature.Parse[Feature](m.GetFeatures())}
	var err error
	if i.ConfigSchema, err = schema.Parse(m.GetConfigSchema()); err != nil {
		return i, fmt.Errorf("the config schema of %q: %w", i.Name, err)
	}
	if i.TaskConfigSchema, err = schema.Parse(m.GetTaskConfigSchema()); err != nil {
		return i, fmt.Errorf("the schema of %q for the config of a device: %w", i.Name, err)
	}
	return i, nil
}

func holderToPB(h Holder) *pb.Holder {
	return &pb.Holder{Namespace: h.Namespace, JobId: h.JobID, TaskGroup: h.TaskGroup, AllocId: h.AllocID, Task: h.Task}
}

func holderFromPB(m *pb.Holder) Holder {
	return Holder{Namespace: m.GetNamespace(), JobID: m.GetJobId(), TaskGroup: m.GetTaskGroup(), AllocID: m.GetAllocId(), Task: m.GetTask()}
}

func fingerprintToPB(f Fingerprint) *pb.FingerprintResponse {
	out := &pb.FingerprintResponse{Problem: f.Problem}
	for _, g := range f.Groups {
		m := &pb.Group{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Attributes: attributesToPB(g.Attributes)}
		for _, i := range g.Instances {
			m.Instances = append(m.Instances, instanceToPB(i))
		}
		out.Groups = append(out.Groups, m)
	}
	return out
}

func instanceToPB(i Instance) *pb.Instance {
	out := &pb.Instance{
		Id: i.ID, Healthy: i.Healthy, HealthDescription: i.HealthDescription, PciBusId: i.PCIBusID, Attributes: attributesToPB(i.Attributes),
	}
	if n := i.NUMANode; n != nil && *n >= 0 && *n <= math.MaxUint16 { // Linux says -1 for "none"
		node := uint32(*n)
		out.NumaNode = &node
	}
	return out
}

func instanceFromPB(m *pb.Instance) Instance {
	out := Instance{
		ID: m.GetId(), Healthy: m.GetHealthy(), HealthDescription: m.GetHealthDescription(), PCIBusID: m.GetPciBusId(),
	}
	if len(m.GetAttributes()) > 0 {
		out.Attributes = attributesFromPB(m.GetAttributes())
	}
	if m.NumaNode != nil && m.GetNumaNode() <= math.MaxUint16 {
		out.NUMANode = NUMA(int(m.GetNumaNode()))
	}
	return out
}

func attributesToPB(all map[string]Attribute) map[string]*pb.Attribute {
	out := make(map[string]*pb.Attribute, len(all))
	for name, a := range all {
		out[name] = attributeToPB(a)
	}
	return out
}

func attributesFromPB(all map[string]*pb.Attribute) map[string]Attribute {
	out := make(map[string]Attribute, len(all))
	for name, a := range all {
		out[name] = attributeFromPB(a)
	}
	return out
}

func fingerprintFromPB(m *pb.FingerprintResponse) Fingerprint {
	out := Fingerprint{Problem: m.GetProblem()}
	for _, g := range m.GetGroups() {
		group := Group{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName(), Attributes: attributesFromPB(g.GetAttributes())}
		for _, i := range g.GetInstances() {
			group.Instances = append(group.Instances, instanceFromPB(i))
		}
		out.Groups = append(out.Groups, group)
	}
	return out
}

func attributeToPB(a Attribute) *pb.Attribute {
	out := &pb.Attribute{Unit: a.Unit}
	switch {
	case a.Int != nil:
		out.Value = &pb.Attribute_Int{Int: *a.Int}
	case a.Float != nil:
		out.Value = &pb.Attribute_Float{Float: *a.Float}
	case a.Text != nil:
		out.Value = &pb.Attribute_Text{Text: *a.Text}
	case a.Bool != nil:
		out.Value = &pb.Attribute_Bool{Bool: *a.Bool}
	}
	return out
}

func attributeFromPB(m *pb.Attribute) Attribute {
	out := Attribute{Unit: m.GetUnit()}
	switch v := m.GetValue().(type) {
	case *pb.Attribute_Int:
		out.Int = &v.Int
	case *pb.Attribute_Float:
		out.Float = &v.Float
	case *pb.Attribute_Text:
		out.Text = &v.Text
	case *pb.Attribute_Bool:
		out.Bool = &v.Bool
	}
	return out
}

func reservationToPB(r *Reservation) *pb.ReserveResponse {
	out := &pb.ReserveResponse{Env: r.Env, CdiDevices: r.CDIDevices}
	for _, m := range r.Mounts {
		out.Mounts = append(out.Mounts, &pb.Mount{HostPath: m.HostPath, TaskPath: m.TaskPath, ReadOnly: m.ReadOnly})
	}
	for _, n := range r.Nodes {
		out.Nodes = append(out.Nodes, &pb.Node{HostPath: n.HostPath, TaskPath: n.TaskPath, Permissions: n.Permissions})
	}
	return out
}

func reservationFromPB(m *pb.ReserveResponse) *Reservation {
	out := &Reservation{Env: m.GetEnv(), CDIDevices: m.GetCdiDevices()}
	for _, x := range m.GetMounts() {
		out.Mounts = append(out.Mounts, Mount{HostPath: x.GetHostPath(), TaskPath: x.GetTaskPath(), ReadOnly: x.GetReadOnly()})
	}
	for _, x := range m.GetNodes() {
		out.Nodes = append(out.Nodes, Node{HostPath: x.GetHostPath(), TaskPath: x.GetTaskPath(), Permissions: x.GetPermissions()})
	}
	return out
}

func statsToPB(groups []GroupStats) *pb.StatsResponse {
	out := &pb.StatsResponse{}
	for _, g := range groups {
		m := &pb.GroupStats{Vendor: g.Vendor, Type: g.Type, Name: g.Name, Instances: map[string]*pb.InstanceStats{}}
		for id, s := range g.Instances {
			i := &pb.InstanceStats{Summary: s.Summary, Time: timestamppb.New(s.Time), Values: map[string]*pb.Value{}}
			for name, v := range s.Values {
				i.Values[name] = valueToPB(v)
			}
			m.Instances[id] = i
		}
		out.Groups = append(out.Groups, m)
	}
	return out
}

func statsFromPB(m *pb.StatsResponse) []GroupStats {
	out := make([]GroupStats, 0, len(m.GetGroups()))
	for _, g := range m.GetGroups() {
		group := GroupStats{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName(), Instances: map[string]Stats{}}
		for id, i := range g.GetInstances() {
			s := Stats{Summary: i.GetSummary(), Time: i.GetTime().AsTime(), Values: map[string]Value{}}
			for name, v := range i.GetValues() {
				s.Values[name] = valueFromPB(v)
			}
			group.Instances[id] = s
		}
		out = append(out, group)
	}
	return out
}

func valueToPB(v Value) *pb.Value {
	out := &pb.Value{Of: v.Of, Unit: v.Unit, Description: v.Description}
	switch {
	case v.Int != nil:
		out.Value = &pb.Value_Int{Int: *v.Int}
	case v.Float != nil:
		out.Value = &pb.Value_Float{Float: *v.Float}
	case v.Text != nil:
		out.Value = &pb.Value_Text{Text: *v.Text}
	case v.Bool != nil:
		out.Value = &pb.Value_Bool{Bool: *v.Bool}
	}
	return out
}

func valueFromPB(m *pb.Value) Value {
	out := Value{Of: m.Of, Unit: m.GetUnit(), Description: m.GetDescription()}
	switch v := m.GetValue().(type) {
	case *pb.Value_Int:
		out.Int = &v.Int
	case *pb.Value_Float:
		out.Float = &v.Float
	case *pb.Value_Text:
		out.Text = &v.Text
	case *pb.Value_Bool:
		out.Bool = &v.Bool
	}
	return out
}
