// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// CSIVolumes are the operations on volumes of type csi.
type CSIVolumes interface {
	// CreateCSIVolume has a driver make a volume, or grows and changes the one of its id.
	CreateCSIVolume(ctx context.Context, v *model.CSIVolume, secrets model.VolumeSecrets) (*model.CSIVolume, uint64, error)
	// RegisterCSIVolume adds a volume that a storage system has.
	RegisterCSIVolume(ctx context.Context, v *model.CSIVolume, secrets model.VolumeSecrets) (*model.CSIVolume, uint64, error)
	// DeleteCSIVolume has the driver remove a volume that no alloc uses.
	DeleteCSIVolume(ctx context.Context, namespace, id string, secrets model.VolumeSecrets) (index uint64, err error)
	// DeregisterCSIVolume forgets a volume; with force also one that is in use.
	DeregisterCSIVolume(ctx context.Context, namespace, id string, force bool) (index uint64, err error)
	// DetachCSIVolume tries at once to detach a volume that no alloc of a node holds.
	DetachCSIVolume(ctx context.Context, namespace, id, nodeID string) (index uint64, err error)
	ExternalCSIVolumes(ctx context.Context, plugin string, limit int, after string) (*CSIExternalVolumes, error)
	CreateCSISnapshot(ctx context.Context, namespace string, s *CSISnapshot) (*CSISnapshot, error)
	DeleteCSISnapshot(ctx context.Context, plugin, id string, secrets model.VolumeSecrets) error
	CSISnapshots(ctx context.Context, plugin string, secrets model.VolumeSecrets, limit int, after string) (*CSISnapshots, error)
}

// HeaderCSISecrets has secrets of a request without a body, as "name=value,name=value".
const HeaderCSISecrets = "X-Nomad-CSI-Secrets"

// CSIVolumesRequest creates or registers volumes.
type CSIVolumesRequest struct{ Volumes []*CSIVolumeSpec }

// CSIVolumeSpec is a volume that a client describes.
type CSIVolumeSpec struct {
	model.CSIVolume
	Secrets model.VolumeSecrets
	// AccessMode and AttachmentMode are how old clients specify the one capability.
	AccessMode     string
	AttachmentMode string
}

// volume returns the volume of a specification.
func (s *CSIVolumeSpec) volume(r *http.Request) *model.CSIVolume {
	v := s.CSIVolume.Copy()
	if v.Namespace == "" {
		v.Namespace = namespaceOf(r)
	}
	if len(v.RequestedCapabilities) == 0 && s.AccessMode != "" {
		v.RequestedCapabilities = []*model.VolumeCapability{{AccessMode: s.AccessMode, AttachmentMode: s.AttachmentMode}}
	}
	return v
}

// CSIVolumesResponse is the result of a CSIVolumesRequest.
type CSIVolumesResponse struct {
	Volumes  []*CSIVolume
	Warnings string
	QueryMeta
}

// CSIStanding is what is known of the driver and the use of a volume. It is derived each
// time from nodes and allocs.
type CSIStanding struct {
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
	Schedulable         bool
	ResourceExhausted   any
	AccessMode          string // of the allocs that hold it; "" if none does
	AttachmentMode      string
}

// CSIVolume is a volume of type csi with those that use it.
type CSIVolume struct {
	*model.CSIVolume
	CSIStanding
	ProviderVersion string
	Secrets         any // always null: secrets are never shown
	Allocations     []*model.AllocListStub
	ReadAllocs      map[string]any // by id of the alloc; the values are null
	WriteAllocs     map[string]any
}

// CSIVolumeStub is a volume of type csi in a list.
type CSIVolumeStub struct {
	ID          string
	Namespace   string
	Name        string
	ExternalID  string
	PluginID    string
	Topologies  []*model.CSITopology
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64
	ModifyTime  int64
	CSIStanding
	CurrentReaders int
	CurrentWriters int
}

// CSIExternalVolumes is a page of the volumes of a storage system.
type CSIExternalVolumes struct {
	Volumes   []*CSIExternalVolume
	NextToken string
}

// CSIExternalVolume is a volume of a storage system.
type CSIExternalVolume struct {
	ExternalID               string
	CapacityBytes            int64
	VolumeContext            map[string]string
	CloneID                  string
	SnapshotID               string
	PublishedExternalNodeIDs []string
	IsAbnormal               bool
	Status                   string
}

// CSISnapshotsRequest makes snapshots.
type CSISnapshotsRequest struct{ Snapshots []*CSISnapshot }

// CSISnapshot is a snapshot of a volume. SourceVolumeID, Name, Parameters and Secrets are
// only in requests.
type CSISnapshot struct {
	ID                     string
	ExternalSourceVolumeID string
	SizeBytes              int64
	CreateTime             int64 // Unix seconds
	IsReady                bool
	SourceVolumeID         string
	PluginID               string
	Name                   string
	Secrets                model.VolumeSecrets
	Parameters             map[string]string
}

// CSISnapshots is a page of snapshots.
type CSISnapshots struct {
	Snapshots []*CSISnapshot
	NextToken string
}

// volumeStandings computes standings, and each driver once.
type volumeStandings struct {
	v       View
	plugins map[string]*model.CSIPlugin // by id and name of the driver
}

func newVolumeStandings(v View) *volumeStandings {
	return &volumeStandings{v: v, plugins: map[string]*model.CSIPlugin{}}
}

func (s *volumeStandings) plugin(vol *model.CSIVolume) *model.CSIPlugin {
	key := vol.PluginID + "\x00" + vol.Driver
	p, known := s.plugins[key]
	if !known {
		p = s.v.CSIPluginByID(vol.PluginID).Of(vol.Driver)
		s.plugins[key] = p
	}
	return p
}

// of returns the standing of a volume, and the allocs that read and write it.
func (s *volumeStandings) of(vol *model.CSIVolume) (st CSIStanding, readers, writers []*model.Allocation) {
	if p := s.plugin(vol); p != nil {
		st.Provider, st.ControllerRequired = p.Provider, p.ControllerRequired || vol.NeedsController()
		st.ControllersHealthy, st.ControllersExpected = model.Healthy(p.Controllers), model.Expected(p.ControllerJobs)
		st.NodesHealthy, st.NodesExpected = model.Healthy(p.Nodes), model.Expected(p.NodeJobs)
		st.Schedulable = p.Schedulable() && vol.State == "" && (st.ControllersHealthy > 0 || !st.ControllerRequired)
	}
	for _, a := range s.v.CSIVolumeHolders(vol.Namespace, vol.ID) {
		job := s.v.JobOf(a)
		if job == nil {
			continue
		}
		tg := job.LookupTaskGroup(a.TaskGroup)
		if tg == nil {
			continue
		}
		r := tg.CSIRequest(vol.ID, a.Index())
		if r == nil {
			continue
		}
		st.AccessMode, st.AttachmentMode = r.Modes()
		if r.Writes() {
			writers = append(writers, a)
		} else {
			readers = append(readers, a)
		}
	}
	return st, readers, writers
}

// redactedFlag stands for flags of mount, which may be secret.
const redactedFlag = "[REDACTED]"

// publicVolume returns a volume as clients may see it.
func publicVolume(vol *model.CSIVolume) *model.CSIVolume {
	c := *vol
	if m := vol.MountOptions; m != nil {
		shown := *m
		if len(m.MountFlags) > 0 {
			shown.MountFlags = []string{redactedFlag}
		}
		c.MountOptions = &shown
	}
	c.Context, c.Topologies = orEmptyMap(c.Context), publicTopologies(c.Topologies)
	return &c
}

// publicTopologies returns topologies in the shape that clients know: in the reference's
// answers a null is before those that a driver has named.
func publicTopologies(all []*model.CSITopology) []*model.CSITopology {
	if len(all) == 0 {
		return []*model.CSITopology{}
	}
	return append([]*model.CSITopology{nil}, all...)
}

func viewCSIVolume(v View, vol *model.CSIVolume) *CSIVolume {
	known := newVolumeStandings(v)
	st, readers, writers := known.of(vol)
	out := &CSIVolume{CSIVolume: publicVolume(vol), CSIStanding: st, Allocations: allocStubs(v, slices.Concat(readers, writers)), ReadAllocs: map[string]any{}, WriteAllocs: map[string]any{}}
	if p := known.plugin(vol); p != nil {
		out.ProviderVersion = p.Version
	}
	for _, a := range readers {
		out.ReadAllocs[a.ID] = nil
	}
	for _, a := range writers {
		out.WriteAllocs[a.ID] = nil
	}
	return out
}

func listCSIVolumes(v View, q *query, node, plugin string) result {
	prefix := q.prefix()
	known := newVolumeStandings(v)
	onNode := func(vol *model.CSIVolume) bool {
		return node == "" || slices.ContainsFunc(v.CSIVolumeHolders(vol.Namespace, vol.ID), func(a *model.Allocation) bool { return strings.HasPrefix(a.NodeID, node) })
	}
	p := page[*model.CSIVolume]{
		items: v.CSIVolumes(),
		keep: func(vol *model.CSIVolume) bool {
			return q.inNamespace(vol.Namespace) && (plugin == "" || vol.PluginID == plugin) && strings.HasPrefix(vol.ID, prefix) && onNode(vol)
		},
		order: func(vol *model.CSIVolume) order { return order{id: vol.Namespace + "." + vol.ID} },
	}
	return listOf(q, p, func(vol *model.CSIVolume) *CSIVolumeStub {
		st, readers, writers := known.of(vol)
		return &CSIVolumeStub{
			ID: vol.ID, Namespace: vol.Namespace, Name: vol.Name, ExternalID: vol.ExternalID, PluginID: vol.PluginID, Topologies: publicTopologies(vol.Topologies),
			CreateIndex: vol.CreateIndex, ModifyIndex: vol.ModifyIndex, CreateTime: vol.CreateTime, ModifyTime: vol.ModifyTime,
			CSIStanding: st, CurrentReaders: len(readers), CurrentWriters: len(writers),
		}
	})
}

func theCSIVolume(v View, q *query) (*model.CSIVolume, error) {
	return orMissing(v.CSIVolumeByID(q.stateNamespace(), q.r.PathValue("id")), "volume not found")
}

func csiVolumeIndex(v *model.CSIVolume) uint64 { return v.ModifyIndex }

func showCSIVolume(v View, _ *query, vol *model.CSIVolume) result {
	return shown(viewCSIVolume(v, vol))
}

func ofCSIVolume(q *query) []state.Key {
	return []state.Key{{Table: state.TableCSIVolumes, Value: state.JobKey(q.stateNamespace(), q.r.PathValue("id"))}}
}

func (s *Server) createCSIVolumes(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.putCSIVolumes(w, r, s.backend.CreateCSIVolume)
}

func (s *Server) registerCSIVolumes(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.putCSIVolumes(w, r, s.backend.RegisterCSIVolume)
}

// maxCSIVolumes is how many volumes one request may have: each is a call to a driver.
const maxCSIVolumes = 64

func (s *Server) putCSIVolumes(w http.ResponseWriter, r *http.Request, put func(context.Context, *model.CSIVolume, model.VolumeSecrets) (*model.CSIVolume, uint64, error)) (any, error) {
	var req CSIVolumesRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if len(req.Volumes) == 0 || len(req.Volumes) > maxCSIVolumes {
		return nil, fail(http.StatusBadRequest, "missing volume: the body must be {\"Volumes\": [{...}]} with 1 to "+strconv.Itoa(maxCSIVolumes)+" volumes")
	}
	out := &CSIVolumesResponse{Volumes: []*CSIVolume{}, QueryMeta: QueryMeta{KnownLeader: true}}
	for _, spec := range req.Volumes {
		made, index, err := put(r.Context(), spec.volume(r), spec.Secrets)
		if err != nil {
			return plain500(nil, err)
		}
		out.Index = max(out.Index, index)
		out.Volumes = append(out.Volumes, viewCSIVolume(s.backend.View(), made))
	}
	setReadMeta(w, out.Index, ReadMeta{KnownLeader: true})
	return out, nil
}

func (s *Server) deregisterCSIVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	force, err := boolParam(r, "force")
	if err != nil {
		return nil, err
	}
	return s.changedCSIVolume(w, func() (uint64, error) {
		return s.backend.DeregisterCSIVolume(r.Context(), namespaceOf(r), r.PathValue("id"), force)
	})
}

func (s *Server) deleteCSIVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	secrets, err := secretsOf(r)
	if err != nil {
		return nil, err
	}
	return s.changedCSIVolume(w, func() (uint64, error) {
		return s.backend.DeleteCSIVolume(r.Context(), namespaceOf(r), r.PathValue("id"), secrets)
	})
}

func (s *Server) detachCSIVolume(w http.ResponseWriter, r *http.Request) (any, error) {
	node := paramsOf(r).get("node")
	if node == "" {
		return nil, fail(http.StatusBadRequest, "detach requires node ID: add ?node=ID")
	}
	return s.changedCSIVolume(w, func() (uint64, error) {
		return s.backend.DetachCSIVolume(r.Context(), namespaceOf(r), r.PathValue("id"), node)
	})
}

func (s *Server) changedCSIVolume(w http.ResponseWriter, change func() (uint64, error)) (any, error) {
	index, err := change()
	if err != nil {
		return plain500(nil, err)
	}
	setReadMeta(w, index, ReadMeta{KnownLeader: true})
	return nil, nil
}

// ofDriver sets the headers of an answer that a driver gave and no state, as the reference
// does: clients want them.
func ofDriver(w http.ResponseWriter) { setReadMeta(w, 0, ReadMeta{}) }

// secretsOf reads the secrets in the header of a request.
func secretsOf(r *http.Request) (model.VolumeSecrets, error) {
	text := r.Header.Get(HeaderCSISecrets)
	if text == "" {
		return nil, nil
	}
	out := model.VolumeSecrets{}
	for _, pair := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fail(http.StatusBadRequest, "the header "+HeaderCSISecrets+" must be name=value,name=value")
		}
		out[name] = value
	}
	return out, nil
}

// pageOf reads the parameters of a page that a driver answers.
func pageOf(r *http.Request) (plugin string, limit int, after string, err error) {
	p := paramsOf(r)
	if plugin = p.get("plugin_id"); plugin == "" {
		return "", 0, "", fail(http.StatusInternalServerError, "no such plugin")
	}
	if text := p.get("per_page"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return "", 0, "", fail(http.StatusBadRequest, "per_page "+strconv.Quote(text)+" is not a number of results")
		}
	}
	return plugin, limit, p.get("next_token"), nil
}

// externalVolumes is the body of an answer about a storage system.
type externalVolumes struct {
	Volumes []*CSIExternalVolume
	QueryMeta
}

func (s *Server) externalCSIVolumes(w http.ResponseWriter, r *http.Request) (any, error) {
	plugin, limit, after, err := pageOf(r)
	if err != nil {
		return nil, err
	}
	page, err := s.backend.ExternalCSIVolumes(r.Context(), plugin, limit, after)
	if err != nil {
		return plain500(nil, err)
	}
	ofDriver(w)
	return &externalVolumes{Volumes: page.Volumes, QueryMeta: QueryMeta{NextToken: page.NextToken}}, nil
}

// snapshotsBody is the body of an answer about snapshots.
type snapshotsBody struct {
	Snapshots []*CSISnapshot
	QueryMeta
}

func (s *Server) createCSISnapshots(w http.ResponseWriter, r *http.Request) (any, error) {
	var req CSISnapshotsRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if len(req.Snapshots) == 0 || len(req.Snapshots) > maxCSIVolumes {
		return nil, fail(http.StatusBadRequest, "missing snapshot: the body must be {\"Snapshots\": [{...}]} with 1 to "+strconv.Itoa(maxCSIVolumes)+" snapshots")
	}
	out := &snapshotsBody{Snapshots: []*CSISnapshot{}}
	for _, want := range req.Snapshots {
		made, err := s.backend.CreateCSISnapshot(r.Context(), namespaceOf(r), want)
		if err != nil {
			return plain500(nil, err)
		}
		out.Snapshots = append(out.Snapshots, made)
	}
	ofDriver(w)
	return out, nil
}

func (s *Server) listCSISnapshots(w http.ResponseWriter, r *http.Request) (any, error) {
	plugin, limit, after, err := pageOf(r)
	if err != nil {
		return nil, err
	}
	secrets, err := secretsOf(r)
	if err != nil {
		return nil, err
	}
	page, err := s.backend.CSISnapshots(r.Context(), plugin, secrets, limit, after)
	if err != nil {
		return plain500(nil, err)
	}
	ofDriver(w)
	return &snapshotsBody{Snapshots: page.Snapshots, QueryMeta: QueryMeta{NextToken: page.NextToken}}, nil
}

func (s *Server) deleteCSISnapshot(w http.ResponseWriter, r *http.Request) (any, error) {
	p := paramsOf(r)
	if p.get("plugin_id") == "" || p.get("snapshot_id") == "" {
		return nil, fail(http.StatusBadRequest, "name the snapshot with ?plugin_id=ID&snapshot_id=ID")
	}
	secrets, err := secretsOf(r)
	if err != nil {
		return nil, err
	}
	if err := s.backend.DeleteCSISnapshot(r.Context(), p.get("plugin_id"), p.get("snapshot_id"), secrets); err != nil {
		return plain500(nil, err)
	}
	ofDriver(w)
	return nil, nil
}

var csiVolumeRoutes = []row{
	{get, "/v1/volumes/external", "csi-read-volume", "plugin_id per_page next_token", act((*Server).externalCSIVolumes)},
	{get, "/v1/volumes/snapshot", "csi-list-volume", "plugin_id per_page next_token", act((*Server).listCSISnapshots)},
	{put, "/v1/volumes/snapshot", "csi-write-volume", nothing, act((*Server).createCSISnapshots)},
	{del, "/v1/volumes/snapshot", "csi-write-volume", "plugin_id snapshot_id", act((*Server).deleteCSISnapshot)},
	{get, "/v1/volume/csi/{id}", "csi-read-volume", reads, one(theCSIVolume, csiVolumeIndex, showCSIVolume, state.TableCSIVolumes, state.TableAllocs, state.TableNodes).watching(ofCSIVolume)},
	{put, "/v1/volume/csi/{id}", "csi-write-volume", nothing, act((*Server).registerCSIVolumes)},
	{del, "/v1/volume/csi/{id}", "csi-write-volume", "force", act((*Server).deregisterCSIVolume)},
	{put, "/v1/volume/csi/{id}/create", "csi-write-volume", nothing, act((*Server).createCSIVolumes)},
	{del, "/v1/volume/csi/{id}/delete", "csi-write-volume", nothing, act((*Server).deleteCSIVolume)},
	{del, "/v1/volume/csi/{id}/detach", "csi-write-volume", "node", act((*Server).detachCSIVolume)},
	{get, "/v1/plugins", "plugin:list", lists + " ~type", list(listCSIPlugins, state.TableNodes, state.TableAllocs, state.TableJobs)},
	{get, "/v1/plugin/csi/{id}", "plugin:read", reads, one(theCSIPlugin, csiPluginIndex, showCSIPlugin, state.TableNodes, state.TableAllocs, state.TableJobs)},
}
