// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// HostVolumes are the operations on dynamic host volumes.
type HostVolumes interface {
	// CreateHostVolume has a node make a volume, or one that exists make anew if the
	// request has its id.
	CreateHostVolume(ctx context.Context, v *model.HostVolume) (*HostVolumeResponse, error)
	// RegisterHostVolume adds a directory that is on a node.
	RegisterHostVolume(ctx context.Context, v *model.HostVolume) (*HostVolumeResponse, error)
	// DeleteHostVolume has the node remove a volume. With force, a volume whose node is out
	// of reach is forgotten.
	DeleteHostVolume(ctx context.Context, namespace, id string, force bool) (index uint64, err error)
	DeleteVolumeClaim(ctx context.Context, id string) (index uint64, err error)
}

// HostVolumeRequest creates or registers a volume.
type HostVolumeRequest struct{ Volume *model.HostVolume }

// HostVolumeResponse is the result of a HostVolumeRequest.
type HostVolumeResponse struct {
	Volume   *model.HostVolume
	Warnings string
	Index    uint64
}

// HostVolumeStub is a host volume in a list.
type HostVolumeStub struct {
	ID            string
	Name          string
	Namespace     string
	NodePool      string
	NodeID        string
	PluginID      string
	CapacityBytes int64
	State         string
	CreateIndex   uint64
	CreateTime    int64
	ModifyIndex   uint64
	ModifyTime    int64
}

// HostVolume is a host volume with the allocs that use it.
type HostVolume struct {
	*model.HostVolume
	Allocations []*model.AllocListStub `json:",omitempty"`
}

// volumeTypes are the types of volumes that a list may be asked for. csi is the type of those
// who name none.
var volumeTypes = map[string]bool{"": true, "csi": true, "host": true}

func checkVolumeType(r *http.Request) error {
	if kind := paramsOf(r).get("type"); !volumeTypes[kind] {
		return fail(http.StatusBadRequest, "type \""+kind+"\" is not a type of volumes: use host or csi")
	}
	return nil
}

func listVolumes(v View, q *query) result {
	params := paramsOf(q.r)
	node, pool, plugin, prefix := params.get("node_id"), params.get("node_pool"), params.get("plugin_id"), q.prefix()
	if params.get("type") != "host" { // a volume of type csi is in no pool
		return listCSIVolumes(v, q, node, plugin)
	}
	p := page[*model.HostVolume]{
		items: v.HostVolumes(),
		keep: func(vol *model.HostVolume) bool {
			return q.inNamespace(vol.Namespace) && strings.HasPrefix(vol.NodeID, node) && (pool == "" || vol.NodePool == pool) &&
				(plugin == "" || vol.PluginID == plugin) && strings.HasPrefix(vol.ID, prefix)
		},
		order: func(vol *model.HostVolume) order { return order{id: vol.ID} },
	}
	return listOf(q, p, func(vol *model.HostVolume) *HostVolumeStub {
		return &HostVolumeStub{
			ID: vol.ID, Name: vol.Name, Namespace: vol.Namespace, NodePool: vol.NodePool, NodeID: vol.NodeID, PluginID: vol.PluginID,
			CapacityBytes: vol.CapacityBytes, State: vol.State, CreateIndex: vol.CreateIndex, CreateTime: vol.CreateTime,
			ModifyIndex: vol.ModifyIndex, ModifyTime: vol.ModifyTime,
		}
	})
}

func theHostVolume(v View, q *query) (*model.HostVolume, error) {
	vol := v.HostVolumeByID(q.r.PathValue("id"))
	if vol != nil && !q.inNamespace(vol.Namespace) {
		vol = nil
	}
	return orMissing(vol, "volume not found")
}

func hostVolumeIndex(v *model.HostVolume) uint64 { return v.ModifyIndex }

func showHostVolume(v View, _ *query, vol *model.HostVolume) result {
	return shown(&HostVolume{HostVolume: vol, Allocations: allocStubs(v, v.HostVolumeUsers(vol))})
}

func listVolumeClaims(v View, q *query) result {
	params := paramsOf(q.r)
	job, group, volume, prefix := params.get("job_id"), params.get("task_group"), params.get("volume_name"), q.prefix()
	is := func(want, value string) bool { return want == "" || want == value }
	p := page[*model.VolumeClaim]{
		items: v.VolumeClaims(),
		keep: func(c *model.VolumeClaim) bool {
			return q.inNamespace(c.Namespace) && is(job, c.JobID) && is(group, c.TaskGroupName) && is(volume, c.VolumeName) && strings.HasPrefix(c.ID, prefix)
		},
		order: func(c *model.VolumeClaim) order { return order{id: c.ID} },
	}
	return listOf(q, p, func(c *model.VolumeClaim) *model.VolumeClaim { return c })
}

// createHostVolume and registerHostVolume answer every refusal as the reference does.
func (s *Server) createHostVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	return putHostVolume(w, r, s.backend.CreateHostVolume)
}

func (s *Server) registerHostVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	return putHostVolume(w, r, s.backend.RegisterHostVolume)
}

func putHostVolume(w http.ResponseWriter, r *http.Request, put func(context.Context, *model.HostVolume) (*HostVolumeResponse, error)) (any, error) {
	var req HostVolumeRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.Volume == nil {
		return nil, fail(http.StatusBadRequest, "missing volume: the body must be {\"Volume\": {...}}")
	}
	if req.Volume.Namespace == "" {
		req.Volume.Namespace = namespaceOf(r)
	}
	resp, err := put(r.Context(), req.Volume)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) deleteHostVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	force, err := boolParam(r, "force")
	if err != nil {
		return nil, err
	}
	index, err := s.backend.DeleteHostVolume(r.Context(), namespaceOf(r), r.PathValue("id"), force)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, index)
	return &IndexResponse{Index: index}, nil
}

func (s *Server) deleteVolumeClaim(w http.ResponseWriter, r *http.Request) (any, error) {
	index, err := s.backend.DeleteVolumeClaim(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	setIndex(w, index)
	return done, nil
}

var hostVolumeRoutes = []row{
	{get, "/v1/volumes", "csi-list-volumes|host-volume-read", lists + " type node_id plugin_id node_pool", list(listVolumes, state.TableHostVolumes, state.TableCSIVolumes, state.TableNodes, state.TableAllocs).after(checkVolumeType)},
	{get, "/v1/volumes/claims", "host-volume-read", lists + " job_id task_group volume_name", list(listVolumeClaims, state.TableVolumeClaims)},
	{del, "/v1/volumes/claim/{id}", "host-volume-delete", nothing, act((*Server).deleteVolumeClaim)},
	{put, "/v1/volume/host/create", "host-volume-create", nothing, act((*Server).createHostVolume)},
	{put, "/v1/volume/host/register", "host-volume-register", nothing, act((*Server).registerHostVolume)},
	{get, "/v1/volume/host/{id}", "host-volume-read", reads, one(theHostVolume, hostVolumeIndex, showHostVolume, state.TableHostVolumes, state.TableAllocs).watching(byPathValue(state.TableHostVolumes, "", "id"))},
	{del, "/v1/volume/host/{id}", "host-volume-delete", "force", act((*Server).deleteHostVolume)},
	{del, "/v1/volume/host/{id}/delete", "host-volume-delete", "force", act((*Server).deleteHostVolume)},
}
