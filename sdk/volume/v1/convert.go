// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package volume

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/drover-project/drover/sdk/internal/pb/volume/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

func infoToPB(v Volume) (*pb.Info, error) {
	i := v.Info()
	body, err := json.Marshal(i.ConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the config schema of %q: %w", i.Name, err)
	}
	return &pb.Info{Name: i.Name, ConfigSchema: body, Features: feature.Strings(Features(v))}, nil
}

func infoFromPB(m *pb.Info) (Info, error) {
	i := Info{Name: m.GetName(), Features: feature.Parse[Feature](m.GetFeatures())}
	var err error
	if i.ConfigSchema, err = schema.Parse(m.GetConfigSchema()); err != nil {
		return i, fmt.Errorf("the config schema of %q: %w", i.Name, err)
	}
	return i, nil
}

// Complete returns a fingerprint whose capabilities are listed, as a host gets it.
func Complete(v Volume, f Fingerprint) Fingerprint {
	if f.Capabilities == nil {
		for _, name := range Features(v) {
			f.Capabilities = append(f.Capabilities, Capability(name))
		}
	}
	return f
}

func fingerprintToPB(f Fingerprint) *pb.FingerprintResponse {
	out := &pb.FingerprintResponse{Provider: f.Provider, ProviderVersion: f.ProviderVersion, Capabilities: feature.Strings(f.Capabilities), Problem: f.Problem}
	if f.Node != nil {
		out.Node = &pb.Node{Id: f.Node.ID, MaxVolumes: f.Node.MaxVolumes, Topology: topologyToPB(f.Node.Topology)}
	}
	return out
}

func fingerprintFromPB(m *pb.FingerprintResponse) Fingerprint {
	out := Fingerprint{Provider: m.GetProvider(), ProviderVersion: m.GetProviderVersion(), Capabilities: feature.Parse[Capability](m.GetCapabilities()), Problem: m.GetProblem()}
	if n := m.GetNode(); n != nil {
		out.Node = &Node{ID: n.GetId(), MaxVolumes: n.GetMaxVolumes(), Topology: topologyFromPB(n.GetTopology())}
	}
	return out
}

func topologyToPB(t Topology) *pb.Topology {
	if t == nil {
		return nil
	}
	return &pb.Topology{Segments: t}
}

func topologyFromPB(m *pb.Topology) Topology {
	if m == nil {
		return nil
	}
	if m.GetSegments() == nil {
		return Topology{}
	}
	return m.GetSegments()
}

// each converts the elements of a list.
func each[A, B any](in []A, convert func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, len(in))
	for i, a := range in {
		out[i] = convert(a)
	}
	return out
}

func requirementToPB(r *TopologyRequirement) *pb.TopologyRequirement {
	if r == nil {
		return nil
	}
	return &pb.TopologyRequirement{Required: each(r.Required, topologyToPB), Preferred: each(r.Preferred, topologyToPB)}
}

func requirementFromPB(m *pb.TopologyRequirement) *TopologyRequirement {
	if m == nil {
		return nil
	}
	return &TopologyRequirement{Required: each(m.GetRequired(), topologyFromPB), Preferred: each(m.GetPreferred(), topologyFromPB)}
}

func accessToPB(a Access) *pb.Access {
	return &pb.Access{Mode: string(a.Mode), Attachment: string(a.Attachment), FsType: a.FSType, MountFlags: a.MountFlags, MountGroup: a.MountGroup}
}

func accessFromPB(m *pb.Access) Access {
	return Access{Mode: AccessMode(m.GetMode()), Attachment: Attachment(m.GetAttachment()), FSType: m.GetFsType(), MountFlags: m.GetMountFlags(), MountGroup: m.GetMountGroup()}
}

func rangeToPB(c CapacityRange) *pb.CapacityRange {
	return &pb.CapacityRange{RequiredBytes: c.RequiredBytes, LimitBytes: c.LimitBytes}
}

func rangeFromPB(m *pb.CapacityRange) CapacityRange {
	return CapacityRange{RequiredBytes: m.GetRequiredBytes(), LimitBytes: m.GetLimitBytes()}
}

func conditionToPB(c *Condition) *pb.Condition {
	if c == nil {
		return nil
	}
	return &pb.Condition{Abnormal: c.Abnormal, Message: c.Message}
}

func conditionFromPB(m *pb.Condition) *Condition {
	if m == nil {
		return nil
	}
	return &Condition{Abnormal: m.GetAbnormal(), Message: m.GetMessage()}
}

func descriptionToPB(d Description) *pb.Description {
	return &pb.Description{
		Id: d.ID, CapacityBytes: d.CapacityBytes, Context: d.Context, Topologies: each(d.Topologies, topologyToPB),
		SourceSnapshot: d.SourceSnapshot, SourceVolume: d.SourceVolume, PublishedNodes: d.PublishedNodes, Condition: conditionToPB(d.Condition),
	}
}

func descriptionFromPB(m *pb.Description) Description {
	return Description{
		ID: m.GetId(), CapacityBytes: m.GetCapacityBytes(), Context: m.GetContext(), Topologies: each(m.GetTopologies(), topologyFromPB),
		SourceSnapshot: m.GetSourceSnapshot(), SourceVolume: m.GetSourceVolume(), PublishedNodes: m.GetPublishedNodes(), Condition: conditionFromPB(m.GetCondition()),
	}
}

func createToPB(plugin string, r CreateRequest) *pb.CreateRequest {
	return &pb.CreateRequest{
		Plugin: plugin, Name: r.Name, Capacity: rangeToPB(r.Capacity), Access: each(r.Access, accessToPB), Parameters: r.Parameters, Secrets: r.Secrets,
		Topology: requirementToPB(r.Topology), SourceSnapshot: r.SourceSnapshot, SourceVolume: r.SourceVolume,
	}
}

func createFromPB(m *pb.CreateRequest) CreateRequest {
	return CreateRequest{
		Name: m.GetName(), Capacity: rangeFromPB(m.GetCapacity()), Access: each(m.GetAccess(), accessFromPB), Parameters: m.GetParameters(), Secrets: m.GetSecrets(),
		Topology: requirementFromPB(m.GetTopology()), SourceSnapshot: m.GetSourceSnapshot(), SourceVolume: m.GetSourceVolume(),
	}
}

func snapshotToPB(s Snapshot) *pb.Snapshot {
	out := &pb.Snapshot{Id: s.ID, VolumeId: s.VolumeID, SizeBytes: s.SizeBytes, Ready: s.Ready}
	if !s.CreatedAt.IsZero() {
		out.CreatedAt = timestamppb.New(s.CreatedAt)
	}
	return out
}

func snapshotFromPB(m *pb.Snapshot) Snapshot {
	out := Snapshot{ID: m.GetId(), VolumeID: m.GetVolumeId(), SizeBytes: m.GetSizeBytes(), Ready: m.GetReady()}
	if at := m.GetCreatedAt(); at.IsValid() {
		out.CreatedAt = at.AsTime()
	}
	return out
}

func publicationToPB(p Publication) *pb.Publication {
	return &pb.Publication{Id: p.ID, StagingPath: p.StagingPath, TargetPaths: p.TargetPaths}
}

func publicationFromPB(m *pb.Publication) Publication {
	return Publication{ID: m.GetId(), StagingPath: m.GetStagingPath(), TargetPaths: m.GetTargetPaths()}
}

func usageToPB(u *Usage) *pb.Usage {
	if u == nil {
		return nil
	}
	return &pb.Usage{Total: u.Total, Used: u.Used, Available: u.Available}
}

func usageFromPB(m *pb.Usage) *Usage {
	if m == nil {
		return nil
	}
	return &Usage{Total: m.GetTotal(), Used: m.GetUsed(), Available: m.GetAvailable()}
}
