// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"encoding/json"
	"fmt"

	pb "github.com/drover-project/drover/sdk/internal/pb/network/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

func infoToPB(n Network) (*pb.Info, error) {
	i := n.Info()
	body, err := json.Marshal(i.ConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the config schema of %q: %w", i.Name, err)
	}
	return &pb.Info{Name: i.Name, ConfigSchema: body, Features: feature.Strings(Features(n))}, nil
}

func infoFromPB(m *pb.Info) (Info, error) {
	i := Info{Name: m.GetName(), Features: feature.Parse[Feature](m.GetFeatures())}
	var err error
	if i.ConfigSchema, err = schema.Parse(m.GetConfigSchema()); err != nil {
		return i, fmt.Errorf("the config schema of %q: %w", i.Name, err)
	}
	return i, nil
}

func fingerprintToPB(f Fingerprint) *pb.FingerprintResponse {
	return &pb.FingerprintResponse{Networks: f.Networks, Attributes: f.Attributes, Problem: f.Problem}
}

func fingerprintFromPB(m *pb.FingerprintResponse) Fingerprint {
	return Fingerprint{Networks: m.GetNetworks(), Attributes: m.GetAttributes(), Problem: m.GetProblem()}
}

func requestToPB(plugin string, r Request) *pb.CreateRequest {
	return &pb.CreateRequest{
		Plugin: plugin, AllocId: r.AllocID, Network: r.Network, Namespace: r.Namespace, JobId: r.JobID, TaskGroup: r.TaskGroup,
		Hostname: r.Hostname, Ports: portsToPB(r.Ports), Dns: dnsToPB(r.DNS), Args: r.Args, Path: r.Path,
	}
}

func requestFromPB(m *pb.CreateRequest) Request {
	return Request{
		AllocID: m.GetAllocId(), Network: m.GetNetwork(), Namespace: m.GetNamespace(), JobID: m.GetJobId(), TaskGroup: m.GetTaskGroup(),
		Hostname: m.GetHostname(), Ports: portsFromPB(m.GetPorts()), DNS: dnsFromPB(m.GetDns()), Args: m.GetArgs(), Path: m.GetPath(),
	}
}

func attachmentToPB(a *Attachment) *pb.Attachment {
	if a == nil {
		return nil
	}
	out := &pb.Attachment{Path: a.Path, Interface: a.Interface, Dns: dnsToPB(a.DNS), Ports: portsToPB(a.Ports)}
	for _, x := range a.Addresses {
		out.Addresses = append(out.Addresses, &pb.Address{Prefix: x.Prefix, Gateway: x.Gateway})
	}
	return out
}

func attachmentFromPB(m *pb.Attachment) *Attachment {
	out := &Attachment{Path: m.GetPath(), Interface: m.GetInterface(), DNS: dnsFromPB(m.GetDns()), Ports: portsFromPB(m.GetPorts())}
	for _, x := range m.GetAddresses() {
		out.Addresses = append(out.Addresses, Address{Prefix: x.GetPrefix(), Gateway: x.GetGateway()})
	}
	return out
}

func portsToPB(ports []Port) (out []*pb.Port) {
	for _, p := range ports {
		out = append(out, &pb.Port{Label: p.Label, HostIp: p.HostIP, HostPort: uint32(p.HostPort), Port: uint32(p.Port)})
	}
	return out
}

func portsFromPB(ports []*pb.Port) (out []Port) {
	for _, p := range ports {
		out = append(out, Port{Label: p.GetLabel(), HostIP: p.GetHostIp(), HostPort: int(p.GetHostPort()), Port: int(p.GetPort())})
	}
	return out
}

func dnsToPB(d *DNS) *pb.DNS {
	if d == nil {
		return nil
	}
	return &pb.DNS{Servers: d.Servers, Searches: d.Searches, Options: d.Options}
}

func dnsFromPB(m *pb.DNS) *DNS {
	if m == nil {
		return nil
	}
	return &DNS{Servers: m.GetServers(), Searches: m.GetSearches(), Options: m.GetOptions()}
}
