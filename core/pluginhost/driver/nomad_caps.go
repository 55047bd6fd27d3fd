// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/drover-project/drover/core/pluginhost/internal/nomadpb/driver"
)

// nomadCapabilities converts the capabilities of a driver. nomadDemands checks its demands
// on the host. docs/plugins/built-for-nomad.md has the whole table.
func nomadCapabilities(c *pb.DriverCapabilities) Capabilities {
	out := Capabilities{
		SendSignals: c.GetSendSignals(), Exec: c.GetExec(), DisableLogCollection: c.GetDisableLogCollection(),
		// Users without an account are not given: the protocol has no place for their number.
		UnknownUser:  true,
		FSIsolation:  "none", // for unveil too: the driver itself hides files from its tasks
		MountConfigs: c.GetMountConfigs() != pb.DriverCapabilities_NO_MOUNTS,
		HostCgroup:   HostCgroupBare, // their executors expect one and set its limits
	}
	switch c.GetFsIsolation() {
	case pb.DriverCapabilities_CHROOT:
		out.FSIsolation = "chroot"
	case pb.DriverCapabilities_IMAGE:
		out.FSIsolation = "image"
	}
	for _, m := range c.GetNetworkIsolationModes() {
		if name, known := pb.NetworkIsolationSpec_NetworkIsolationMode_name[int32(m)]; known {
			out.NetworkModes = append(out.NetworkModes, NetworkMode(strings.ToLower(name)))
		}
	}
	return out
}

// remoteTasksField is the number of the field in which older drivers declare that their
// tasks run on other machines.
const remoteTasksField = 7

// nomadDemands says why this agent cannot serve a driver with these capabilities, and
// what to do; "" if it can.
func nomadDemands(c *pb.DriverCapabilities, roots Roots) string {
	switch iso := c.GetFsIsolation(); iso {
	case pb.DriverCapabilities_NONE, pb.DriverCapabilities_IMAGE, pb.DriverCapabilities_UNVEIL:
	case pb.DriverCapabilities_CHROOT:
		if roots == nil {
			return "the driver expects its host to build a root file system for each task (fs_isolation is chroot), which only an agent does: try it with drover agent -dev"
		}
		if why := roots.Unable(); why != "" {
			return "the driver expects the agent to build a root file system for each task (fs_isolation is chroot): " + why
		}
	default:
		return fmt.Sprintf("the driver isolates the files of tasks in a way that this agent does not know (fs_isolation is %d); install a version of the plugin made for version v0.1.0 of the interface", iso)
	}
	if unknownFlag(c.ProtoReflect().GetUnknown(), remoteTasksField) {
		return "the driver runs tasks on other machines (remote_tasks), which this agent could not stop when it is lost; use a driver that runs them on this machine"
	}
	return ""
}

// unknownFlag reports whether a field that is in no newer protocol is set to true.
func unknownFlag(raw []byte, field protowire.Number) bool {
	for len(raw) > 0 {
		number, typ, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false
		}
		raw = raw[n:]
		if number == field && typ == protowire.VarintType {
			v, n := protowire.ConsumeVarint(raw)
			return n > 0 && v != 0
		}
		if n = protowire.ConsumeFieldValue(number, typ, raw); n < 0 {
			return false
		}
		raw = raw[n:]
	}
	return false
}
