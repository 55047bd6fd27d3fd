// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"slices"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// eventTopics are the topics that clients may request. Topics of objects that this
// version does not have never have events.
var eventTopics = []string{
	"*", "Job", "Evaluation", "Allocation", "Deployment", "Node", "NodePool", "Namespace", "Service",
	"ACLToken", "ACLPolicy", "ACLRole", "ACLAuthMethod", "ACLBindingRule", "CSIPlugin", "CSIVolume", "HostVolume", "Operator",
}

// EventTables are the tables whose changes make events.
var EventTables = []string{
	state.TableJobs, state.TableEvals, state.TableAllocs, state.TableDeployments, state.TableNodes, state.TableNodePools, state.TableNamespaces, state.TableServices,
	state.TableHostVolumes, state.TableCSIVolumes,
}

// eventType returns the type of event that a change makes, "" for none. It considers
// both sides of the change.
func eventType(c *state.Change) string {
	if isNil(c.New) {
		return goneType(c.Old)
	}
	switch o := c.New.(type) {
	case *model.Job:
		if c.Table != state.TableJobs {
			return "" // a change of a version; the change of the job itself makes the event
		}
		if o.Stop {
			return "JobDeregistered"
		}
		return "JobRegistered"
	case *model.Allocation:
		was, _ := c.Old.(*model.Allocation)
		return allocEventType(was, o)
	case *model.Evaluation:
		return "EvaluationUpdated"
	case *model.Deployment:
		was, _ := c.Old.(*model.Deployment)
		return deploymentEventType(was, o)
	case *model.Node:
		was, _ := c.Old.(*model.Node)
		return nodeEventType(was, o)
	case *model.NodePool:
		return "NodePoolUpserted"
	case *model.Namespace:
		return "NamespaceUpserted"
	case *model.ServiceRegistration:
		return "ServiceRegistration"
	case *model.HostVolume:
		if was, ok := c.Old.(*model.HostVolume); ok && was != nil && was.State != o.State && was.HostPath == o.HostPath {
			return "NodeRegistration" // its node offers it, or does not any more
		}
		return "HostVolumeRegistered"
	case *model.CSIVolume:
		if was, ok := c.Old.(*model.CSIVolume); ok && was != nil && len(was.Attachments) != len(o.Attachments) {
			return "CSIVolumeClaim"
		}
		return "CSIVolumeRegistered"
	}
	return ""
}

// goneType returns the event type for the removal of an object. The removal of
// evaluations, allocs and deployments is housekeeping and makes no event.
func goneType(old any) string {
	switch old.(type) {
	case *model.Job:
		return "JobDeregistered"
	case *model.Node:
		return "NodeDeregistration"
	case *model.NodePool:
		return "NodePoolDeleted"
	case *model.Namespace:
		return "NamespaceDeleted"
	case *model.ServiceRegistration:
		return "ServiceDeregistration"
	case *model.HostVolume:
		return "HostVolumeDeleted"
	case *model.CSIVolume:
		return "CSIVolumeDeregistered"
	}
	return ""
}

func allocEventType(was, is *model.Allocation) string {
	switch {
	case was == nil:
		return "PlanResult"
	case was.DesiredTransition != is.DesiredTransition:
		return "AllocationUpdateDesiredStatus"
	case was.AllocModifyIndex != is.AllocModifyIndex:
		return "PlanResult"
	case was.DeploymentStatus != is.DeploymentStatus && was.ClientStatus == is.ClientStatus && !sameHealth(was.DeploymentStatus, is.DeploymentStatus):
		return "DeploymentAllocHealth"
	}
	return "AllocationUpdated"
}

func sameHealth(a, b *model.AllocDeploymentStatus) bool {
	return a.IsHealthy() == b.IsHealthy() && a.IsUnhealthy() == b.IsUnhealthy()
}

func deploymentEventType(was, is *model.Deployment) string {
	if was == nil {
		return "PlanResult"
	}
	healthier := false
	for name, g := range is.TaskGroups {
		old := was.TaskGroups[name]
		if g == nil || old == nil {
			continue
		}
		if g.Promoted && !old.Promoted {
			return "DeploymentPromotion"
		}
		healthier = healthier || g.HealthyAllocs != old.HealthyAllocs || g.UnhealthyAllocs != old.UnhealthyAllocs
	}
	switch {
	case was.Status != is.Status:
		return "DeploymentStatusUpdate"
	case healthier:
		return "DeploymentAllocHealth"
	}
	return "PlanResult"
}

func nodeEventType(was, is *model.Node) string {
	switch {
	case was == nil:
		return "NodeRegistration"
	case (was.DrainStrategy == nil) != (is.DrainStrategy == nil):
		return "NodeDrain"
	case was.SchedulingEligibility != is.SchedulingEligibility:
		return "NodeEligibility"
	}
	return "NodeEvent"
}

// eventOf makes the event of a kept change.
func eventOf(c *keptChange, index uint64) Event {
	e := Event{Type: c.kind, Index: index}
	names := func(list ...string) []string { return slices.DeleteFunc(list, func(s string) bool { return s == "" }) }
	switch o := c.object.(type) {
	case *model.Job:
		e.Topic, e.Key, e.Namespace, e.Payload = "Job", o.ID, o.Namespace, map[string]any{"Job": o}
		if c.gone {
			e.Payload["Deleted"] = true
		}
	case *model.Allocation:
		e.Topic, e.Key, e.Namespace, e.Payload = "Allocation", o.ID, o.Namespace, map[string]any{"Allocation": o}
		e.FilterKeys = names(o.JobID, o.DeploymentID)
	case *model.Evaluation:
		e.Topic, e.Key, e.Namespace, e.Payload = "Evaluation", o.ID, o.Namespace, map[string]any{"Evaluation": o}
		e.FilterKeys = names(o.JobID, o.DeploymentID)
	case *model.Deployment:
		e.Topic, e.Key, e.Namespace, e.Payload = "Deployment", o.ID, o.Namespace, map[string]any{"Deployment": o}
		e.FilterKeys = names(o.JobID)
	case *model.Node:
		e.Topic, e.Key, e.Payload = "Node", o.ID, map[string]any{"Node": publicNode(o)}
	case *model.NodePool:
		e.Topic, e.Key, e.Payload = "NodePool", o.Name, map[string]any{"NodePool": viewNodePool(o)}
	case *model.Namespace:
		e.Topic, e.Key, e.Payload = "Namespace", o.Name, map[string]any{"Namespace": viewNamespace(o)}
	case *model.ServiceRegistration:
		e.Topic, e.Key, e.Namespace, e.Payload = "Service", o.ID, o.Namespace, map[string]any{"Service": o}
		e.FilterKeys = names(o.JobID, o.ServiceName)
	case *model.HostVolume:
		e.Topic, e.Key, e.Namespace, e.Payload = "HostVolume", o.ID, o.Namespace, map[string]any{"Volume": o}
		e.FilterKeys = names(o.Name, o.NodeID)
	case *model.CSIVolume:
		e.Topic, e.Key, e.Namespace, e.Payload = "CSIVolume", o.ID, o.Namespace, map[string]any{"Volume": publicVolume(o)}
		e.FilterKeys = names(o.PluginID)
	case pluginChange:
		e.Topic, e.Key, e.FilterKeys = "CSIPlugin", o.id, []string{o.id}
	}
	return e
}

// isNil reports whether one side of a change is missing: no value, or a nil pointer.
func isNil(v any) bool {
	switch o := v.(type) {
	case nil:
		return true
	case *model.Job:
		return o == nil
	case *model.Allocation:
		return o == nil
	case *model.Evaluation:
		return o == nil
	case *model.Deployment:
		return o == nil
	case *model.Node:
		return o == nil
	case *model.NodePool:
		return o == nil
	case *model.Namespace:
		return o == nil
	case *model.ServiceRegistration:
		return o == nil
	case *model.HostVolume:
		return o == nil
	case *model.CSIVolume:
		return o == nil
	}
	return false
}
