// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package stats

import (
	"google.golang.org/protobuf/types/known/durationpb"

	pb "github.com/drover-project/drover/sdk/internal/pb/stats/v1"
)

func cpuTimesToPB(v CPUTimes) *pb.CPUTimes {
	return &pb.CPUTimes{
		Name: v.Name, User: v.User, Nice: v.Nice, System: v.System, Idle: v.Idle, IoWait: v.IOWait, Irq: v.IRQ, SoftIrq: v.SoftIRQ,
		Steal: v.Steal,
	}
}

func cpuTimesFromPB(m *pb.CPUTimes) CPUTimes {
	return CPUTimes{
		Name: m.GetName(), User: m.GetUser(), Nice: m.GetNice(), System: m.GetSystem(), Idle: m.GetIdle(), IOWait: m.GetIoWait(),
		IRQ: m.GetIrq(), SoftIRQ: m.GetSoftIrq(), Steal: m.GetSteal(),
	}
}

func memoryToPB(v Memory) *pb.Memory {
	return &pb.Memory{
		Total: v.Total, Available: v.Available, Used: v.Used, Free: v.Free, Buffers: v.Buffers, Cached: v.Cached, Shared: v.Shared,
	}
}

func memoryFromPB(m *pb.Memory) Memory {
	return Memory{
		Total: m.GetTotal(), Available: m.GetAvailable(), Used: m.GetUsed(), Free: m.GetFree(), Buffers: m.GetBuffers(),
		Cached: m.GetCached(), Shared: m.GetShared(),
	}
}

func swapToPB(v Swap) *pb.Swap {
	return &pb.Swap{
		Total: v.Total, Used: v.Used, Free: v.Free, In: v.In, Out: v.Out,
	}
}

func swapFromPB(m *pb.Swap) Swap {
	return Swap{
		Total: m.GetTotal(), Used: m.GetUsed(), Free: m.GetFree(), In: m.GetIn(), Out: m.GetOut(),
	}
}

func fileSystemToPB(v FileSystem) *pb.FileSystem {
	return &pb.FileSystem{
		Device: v.Device, Mountpoint: v.Mountpoint, Type: v.Type, ReadOnly: v.ReadOnly, Size: v.Size, Used: v.Used,
		Available: v.Available, Inodes: v.Inodes, InodesUsed: v.InodesUsed,
	}
}

func fileSystemFromPB(m *pb.FileSystem) FileSystem {
	return FileSystem{
		Device: m.GetDevice(), Mountpoint: m.GetMountpoint(), Type: m.GetType(), ReadOnly: m.GetReadOnly(), Size: m.GetSize(),
		Used: m.GetUsed(), Available: m.GetAvailable(), Inodes: m.GetInodes(), InodesUsed: m.GetInodesUsed(),
	}
}

func networkToPB(v Network) *pb.Network {
	return &pb.Network{
		Interface: v.Interface, ReceivedBytes: v.ReceivedBytes, ReceivedPackets: v.ReceivedPackets, ReceivedErrors: v.ReceivedErrors,
		ReceivedDrops: v.ReceivedDrops, SentBytes: v.SentBytes, SentPackets: v.SentPackets, SentErrors: v.SentErrors,
		SentDrops: v.SentDrops,
	}
}

func networkFromPB(m *pb.Network) Network {
	return Network{
		Interface: m.GetInterface(), ReceivedBytes: m.GetReceivedBytes(), ReceivedPackets: m.GetReceivedPackets(),
		ReceivedErrors: m.GetReceivedErrors(), ReceivedDrops: m.GetReceivedDrops(), SentBytes: m.GetSentBytes(),
		SentPackets: m.GetSentPackets(), SentErrors: m.GetSentErrors(), SentDrops: m.GetSentDrops(),
	}
}

func loadToPB(v Load) *pb.Load {
	return &pb.Load{
		One: v.One, Five: v.Five, Fifteen: v.Fifteen,
	}
}

func loadFromPB(m *pb.Load) Load {
	return Load{
		One: m.GetOne(), Five: m.GetFive(), Fifteen: m.GetFifteen(),
	}
}

func diskToPB(v Disk) *pb.Disk {
	return &pb.Disk{
		Device: v.Device, Reads: v.Reads, Writes: v.Writes, ReadBytes: v.ReadBytes, WrittenBytes: v.WrittenBytes, InFlight: v.InFlight,
		ReadTime: durationpb.New(v.ReadTime), WriteTime: durationpb.New(v.WriteTime), BusyTime: durationpb.New(v.BusyTime),
	}
}

func diskFromPB(m *pb.Disk) Disk {
	return Disk{
		Device: m.GetDevice(), Reads: m.GetReads(), Writes: m.GetWrites(), ReadBytes: m.GetReadBytes(),
		WrittenBytes: m.GetWrittenBytes(), InFlight: m.GetInFlight(),
		ReadTime: m.GetReadTime().AsDuration(), WriteTime: m.GetWriteTime().AsDuration(), BusyTime: m.GetBusyTime().AsDuration(),
	}
}

func temperatureToPB(v Temperature) *pb.Temperature {
	return &pb.Temperature{Sensor: v.Sensor, Celsius: v.Celsius, High: v.High, Critical: v.Critical}
}

func temperatureFromPB(m *pb.Temperature) Temperature {
	return Temperature{Sensor: m.GetSensor(), Celsius: m.GetCelsius(), High: m.High, Critical: m.Critical}
}

func valueToPB(v Value) *pb.Value {
	out := &pb.Value{Series: v.Series, Labels: v.Labels, Task: v.Task, Value: v.Value}
	if o := v.Observed; o != nil {
		out.Histogram = &pb.Histogram{Counts: o.Counts, Sum: o.Sum}
		if out.Value == 0 {
			out.Value = float64(o.Count())
		}
	}
	return out
}

func valueFromPB(m *pb.Value) Value {
	out := Value{Series: m.GetSeries(), Labels: m.GetLabels(), Task: m.GetTask(), Value: m.GetValue()}
	if h := m.GetHistogram(); h != nil {
		out.Observed = &Observed{Counts: h.GetCounts(), Sum: h.GetSum()}
	}
	return out
}

func taskToPB(t Task) *pb.Task {
	return &pb.Task{
		Id: t.ID, Namespace: t.Namespace, JobId: t.JobID, TaskGroup: t.TaskGroup, AllocId: t.AllocID, Name: t.Name, Driver: t.Driver,
		DriverId: t.DriverID,
	}
}

func taskFromPB(m *pb.Task) Task {
	return Task{
		ID: m.GetId(), Namespace: m.GetNamespace(), JobID: m.GetJobId(), TaskGroup: m.GetTaskGroup(), AllocID: m.GetAllocId(), Name: m.GetName(),
		Driver: m.GetDriver(), DriverID: m.GetDriverId(),
	}
}
