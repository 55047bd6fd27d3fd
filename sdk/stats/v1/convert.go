// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/internal/feature"
	"github.com/drover-project/drover/sdk/schema"
)

func infoToPB(c Collector) (*pb.Info, error) {
	i := c.Info()
	body, err := json.Marshal(i.ConfigSchema)
	if err != nil {
		return nil, errdefs.Internalf("encode the config schema of %q: %w", i.Name, err)
	}
	out := &pb.Info{Name: i.Name, ConfigSchema: body, Features: feature.Strings(Features(c))}
	for _, p := range i.Parts {
		out.Parts = append(out.Parts, string(p))
	}
	for _, s := range i.Series {
		out.Series = append(out.Series, &pb.Series{Name: s.Name, Unit: s.Unit, Description: s.Description, Kind: pb.Kind(s.Kind), Labels: s.Labels, Bounds: s.Bounds, PerTask: s.PerTask})
	}
	return out, nil
}

func infoFromPB(m *pb.Info) (Info, error) {
	i := Info{Name: m.GetName(), Features: feature.Parse[Feature](m.GetFeatures())}
	var err error
	if i.ConfigSchema, err = schema.Parse(m.GetConfigSchema()); err != nil {
		return i, fmt.Errorf("the config schema of %q: %w", i.Name, err)
	}
	for _, p := range m.GetParts() {
		i.Parts = append(i.Parts, Part(p))
	}
	for _, s := range m.GetSeries() {
		i.Series = append(i.Series, Series{
			Name: s.GetName(), Unit: s.GetUnit(), Description: s.GetDescription(), Kind: kindFromPB(s.GetKind()), Labels: s.GetLabels(),
			Bounds: s.GetBounds(), PerTask: s.GetPerTask(),
		})
	}
	return i, nil
}

// kindFromPB maps the kinds that this side does not know to SeriesUnknown.
func kindFromPB(k pb.Kind) SeriesKind {
	if kind := SeriesKind(k); kind == Gauge || kind == Counter || kind == Histogram {
		return kind
	}
	return SeriesUnknown
}

// each converts the elements of a list; an empty list becomes nil.
func each[A, B any](in []A, convert func(A) B) []B {
	if len(in) == 0 {
		return nil
	}
	out := make([]B, 0, len(in))
	for _, v := range in {
		out = append(out, convert(v))
	}
	return out
}

func sampleToPB(s Sample) *pb.Sample {
	out := &pb.Sample{
		Time: timestamppb.New(s.Time), Uptime: durationpb.New(s.Uptime), Problems: s.Problems,
		FileSystems: each(s.FileSystems, fileSystemToPB), Disks: each(s.Disks, diskToPB), Networks: each(s.Networks, networkToPB),
		Temperatures: each(s.Temperatures, temperatureToPB), Values: each(s.Values, valueToPB),
	}
	if c := s.CPU; c != nil {
		out.Cpu = &pb.CPU{Total: cpuTimesToPB(c.Total), Cores: each(c.Cores, cpuTimesToPB)}
	}
	if s.Memory != nil {
		out.Memory = memoryToPB(*s.Memory)
	}
	if s.Swap != nil {
		out.Swap = swapToPB(*s.Swap)
	}
	if s.Load != nil {
		out.Load = loadToPB(*s.Load)
	}
	return out
}

func sampleFromPB(m *pb.Sample) Sample {
	out := Sample{
		Uptime: m.GetUptime().AsDuration(), Problems: m.GetProblems(),
		FileSystems: each(m.GetFileSystems(), fileSystemFromPB), Disks: each(m.GetDisks(), diskFromPB), Networks: each(m.GetNetworks(), networkFromPB),
		Temperatures: each(m.GetTemperatures(), temperatureFromPB), Values: each(m.GetValues(), valueFromPB),
	}
	if t := m.GetTime(); t.IsValid() {
		out.Time = t.AsTime()
	}
	if c := m.GetCpu(); c != nil {
		out.CPU = &CPU{Total: cpuTimesFromPB(c.GetTotal()), Cores: each(c.GetCores(), cpuTimesFromPB)}
	}
	out.Memory = where(m.GetMemory(), memoryFromPB)
	out.Swap = where(m.GetSwap(), swapFromPB)
	out.Load = where(m.GetLoad(), loadFromPB)
	return out
}

// where converts a message that may be nil.
func where[M, T any](m *M, convert func(*M) T) *T {
	if m == nil {
		return nil
	}
	v := convert(m)
	return &v
}
