// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"encoding/json"
	"fmt"
	"time"

	pb "github.com/drover-project/drover/sdk/internal/pb/registry/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

// each converts the elements of a list.
func each[A, B any](in []A, convert func(A) B) []B {
	if in == nil {
		return nil
	}
	out := make([]B, len(in))
	for i := range in {
		out[i] = convert(in[i])
	}
	return out
}

func infoToPB(r Registry) (*pb.Info, error) {
	i := r.Info()
	body, err := json.Marshal(i.ConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the config schema of %q: %w", i.Name, err)
	}
	return &pb.Info{Name: i.Name, ConfigSchema: body, Features: feature.Strings(Features(r))}, nil
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
	return &pb.FingerprintResponse{Clusters: each(f.Clusters, func(c Cluster) *pb.Cluster {
		return &pb.Cluster{Name: c.Name, Healthy: c.Healthy, Attributes: c.Attributes, Problem: c.Problem}
	})}
}

func fingerprintFromPB(m *pb.FingerprintResponse) Fingerprint {
	return Fingerprint{Clusters: each(m.GetClusters(), func(c *pb.Cluster) Cluster {
		return Cluster{Name: c.GetName(), Healthy: c.GetHealthy(), Attributes: c.GetAttributes(), Problem: c.GetProblem()}
	})}
}

func registrationToPB(s Registration) *pb.Registration {
	out := &pb.Registration{
		Id: s.ID, Name: s.Name, Namespace: s.Namespace, Partition: s.Partition, Address: s.Address, Port: uint32(s.Port), Tags: s.Tags, Meta: s.Meta,
		Kind: s.Kind, EnableTagOverride: s.EnableTagOverride, Checks: each(s.Checks, checkToPB),
	}
	if s.Weights != nil {
		out.Weights = &pb.Weights{Passing: int32(s.Weights.Passing), Warning: int32(s.Weights.Warning)}
	}
	if s.TaggedAddresses != nil {
		out.TaggedAddresses = map[string]*pb.Endpoint{}
		for k, e := range s.TaggedAddresses {
			out.TaggedAddresses[k] = &pb.Endpoint{Address: e.Address, Port: uint32(e.Port)}
		}
	}
	return out
}

func registrationFromPB(m *pb.Registration) Registration {
	out := Registration{
		ID: m.GetId(), Name: m.GetName(), Namespace: m.GetNamespace(), Partition: m.GetPartition(), Address: m.GetAddress(), Port: int(m.GetPort()),
		Tags: m.GetTags(), Meta: m.GetMeta(), Kind: m.GetKind(), EnableTagOverride: m.GetEnableTagOverride(), Checks: each(m.GetChecks(), checkFromPB),
	}
	if w := m.GetWeights(); w != nil {
		out.Weights = &Weights{Passing: int(w.GetPassing()), Warning: int(w.GetWarning())}
	}
	if m.GetTaggedAddresses() != nil {
		out.TaggedAddresses = map[string]Endpoint{}
		for k, e := range m.GetTaggedAddresses() {
			out.TaggedAddresses[k] = Endpoint{Address: e.GetAddress(), Port: int(e.GetPort())}
		}
	}
	return out
}

func checkToPB(c Check) *pb.Check {
	out := &pb.Check{
		Id: c.ID, Name: c.Name, Type: string(c.Type), Address: c.Address, IntervalNs: int64(c.Interval), TimeoutNs: int64(c.Timeout), InitialStatus: string(c.InitialStatus),
		SuccessBeforePassing: int32(c.SuccessBeforePassing), FailuresBeforeCritical: int32(c.FailuresBeforeCritical), FailuresBeforeWarning: int32(c.FailuresBeforeWarning),
		Notes: c.Notes, TlsServerName: c.TLSServerName, TlsSkipVerify: c.TLSSkipVerify,
	}
	if h := c.HTTP; h != nil {
		out.Http = &pb.HTTP{Scheme: h.Scheme, Path: h.Path, Method: h.Method, Body: h.Body}
		if h.Header != nil {
			out.Http.Header = map[string]*pb.Values{}
			for k, v := range h.Header {
				out.Http.Header[k] = &pb.Values{Values: v}
			}
		}
	}
	if g := c.GRPC; g != nil {
		out.Grpc = &pb.GRPC{Service: g.Service, Tls: g.TLS}
	}
	if r := c.Report; r != nil {
		out.Report = &pb.Report{Status: string(r.Status), Output: r.Output, TtlNs: int64(r.TTL)}
	}
	return out
}

func checkFromPB(m *pb.Check) Check {
	out := Check{
		ID: m.GetId(), Name: m.GetName(), Type: CheckType(m.GetType()), Address: m.GetAddress(), Interval: time.Duration(m.GetIntervalNs()), Timeout: time.Duration(m.GetTimeoutNs()),
		InitialStatus: Status(m.GetInitialStatus()), SuccessBeforePassing: int(m.GetSuccessBeforePassing()), FailuresBeforeCritical: int(m.GetFailuresBeforeCritical()),
		FailuresBeforeWarning: int(m.GetFailuresBeforeWarning()), Notes: m.GetNotes(), TLSServerName: m.GetTlsServerName(), TLSSkipVerify: m.GetTlsSkipVerify(),
	}
	if h := m.GetHttp(); h != nil {
		out.HTTP = &HTTP{Scheme: h.GetScheme(), Path: h.GetPath(), Method: h.GetMethod(), Body: h.GetBody()}
		if h.GetHeader() != nil {
			out.HTTP.Header = map[string][]string{}
			for k, v := range h.GetHeader() {
				out.HTTP.Header[k] = v.GetValues()
			}
		}
	}
	if g := m.GetGrpc(); g != nil {
		out.GRPC = &GRPC{Service: g.GetService(), TLS: g.GetTls()}
	}
	if r := m.GetReport(); r != nil {
		out.Report = &Report{Status: Status(r.GetStatus()), Output: r.GetOutput(), TTL: time.Duration(r.GetTtlNs())}
	}
	return out
}

func credentialToPB(c Credential) *pb.Credential { return &pb.Credential{Id: c.ID, Secret: c.Secret} }

func credentialFromPB(m *pb.Credential) Credential {
	return Credential{ID: m.GetId(), Secret: m.GetSecret()}
}

func credentialsToPB(all map[string]Credential) map[string]*pb.Credential {
	if all == nil {
		return nil
	}
	out := make(map[string]*pb.Credential, len(all))
	for id, c := range all {
		out[id] = credentialToPB(c)
	}
	return out
}

func credentialsFromPB(all map[string]*pb.Credential) map[string]Credential {
	if all == nil {
		return nil
	}
	out := make(map[string]Credential, len(all))
	for id, m := range all {
		out[id] = credentialFromPB(m)
	}
	return out
}

func queryToPB(plugin string, q Query) *pb.QueryRequest {
	out := &pb.QueryRequest{
		Plugin: plugin, Cluster: q.Cluster, Kind: string(q.Kind), Name: q.Name, Namespace: q.Namespace, Partition: q.Partition, Datacenter: q.Datacenter,
		Tag: q.Tag, Unhealthy: q.Unhealthy, Since: q.Since, WaitNs: int64(q.Wait), MaxStaleNs: int64(q.MaxStale),
	}
	if q.Credential != nil {
		out.Credential = credentialToPB(*q.Credential)
	}
	return out
}

func queryFromPB(m *pb.QueryRequest) Query {
	out := Query{
		Cluster: m.GetCluster(), Kind: QueryKind(m.GetKind()), Name: m.GetName(), Namespace: m.GetNamespace(), Partition: m.GetPartition(), Datacenter: m.GetDatacenter(),
		Tag: m.GetTag(), Unhealthy: m.GetUnhealthy(), Since: m.GetSince(), Wait: time.Duration(m.GetWaitNs()), MaxStale: time.Duration(m.GetMaxStaleNs()),
	}
	if m.GetCredential() != nil {
		c := credentialFromPB(m.GetCredential())
		out.Credential = &c
	}
	return out
}

func answerToPB(a *Answer) *pb.QueryResponse {
	if a == nil {
		return &pb.QueryResponse{}
	}
	return &pb.QueryResponse{
		Index: a.Index, Found: a.Found,
		Pairs: each(a.Pairs, func(p Pair) *pb.Pair { return &pb.Pair{Key: p.Key, Value: p.Value} }),
		Instances: each(a.Instances, func(i Instance) *pb.Instance {
			return &pb.Instance{
				Id: i.ID, Name: i.Name, Address: i.Address, Port: uint32(i.Port), Tags: i.Tags, Meta: i.Meta, Node: i.Node, NodeAddress: i.NodeAddress,
				Datacenter: i.Datacenter, Status: string(i.Status),
			}
		}),
		Services: each(a.Services, func(s Summary) *pb.Summary { return &pb.Summary{Name: s.Name, Tags: s.Tags} }),
	}
}

func answerFromPB(m *pb.QueryResponse) *Answer {
	return &Answer{
		Index: m.GetIndex(), Found: m.GetFound(),
		Pairs: each(m.GetPairs(), func(p *pb.Pair) Pair { return Pair{Key: p.GetKey(), Value: p.GetValue()} }),
		Instances: each(m.GetInstances(), func(i *pb.Instance) Instance {
			return Instance{
				ID: i.GetId(), Name: i.GetName(), Address: i.GetAddress(), Port: int(i.GetPort()), Tags: i.GetTags(), Meta: i.GetMeta(), Node: i.GetNode(),
				NodeAddress: i.GetNodeAddress(), Datacenter: i.GetDatacenter(), Status: Status(i.GetStatus()),
			}
		}),
		Services: each(m.GetServices(), func(s *pb.Summary) Summary { return Summary{Name: s.GetName(), Tags: s.GetTags()} }),
	}
}
