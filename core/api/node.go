// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// nodeStub returns the short form of a node. full adds resources, osName the name of
// the operating system.
func nodeStub(n *model.Node, full, osName bool) *NodeListStub {
	addr, _, err := net.SplitHostPort(n.HTTPAddr)
	if err != nil {
		addr = n.HTTPAddr
	}
	st := &NodeListStub{
		Address: addr, ID: n.ID, Datacenter: n.Datacenter, Name: n.Name, NodeClass: n.NodeClass, NodePool: n.NodePool,
		Version: n.Attributes["nomad.version"], Drain: n.Drain || n.DrainStrategy != nil,
		SchedulingEligibility: n.SchedulingEligibility, Status: n.Status, StatusDescription: n.StatusDescription,
		Drivers: orEmptyMap(n.Drivers), HostVolumes: orEmptyMap(n.HostVolumes), LastDrain: n.LastDrain,
		CreateIndex: n.CreateIndex, ModifyIndex: n.ModifyIndex,
	}
	if full {
		st.NodeResources, st.ReservedResources = n.NodeResources, n.ReservedResources
	}
	if osName {
		st.Attributes = map[string]string{"os.name": n.Attributes["os.name"]}
	}
	return st
}

func orEmptyMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// publicNode returns a node without its secret.
func publicNode(n *model.Node) *model.Node {
	c := *n
	c.SecretID = ""
	c.Drain = n.DrainStrategy != nil
	c.Links, c.Meta, c.Attributes = orEmptyMap(n.Links), orEmptyMap(n.Meta), orEmptyMap(n.Attributes)
	c.Drivers, c.HostVolumes = orEmptyMap(n.Drivers), orEmptyMap(n.HostVolumes)
	c.CSIControllerPlugins, c.CSINodePlugins = orEmptyMap(n.CSIControllerPlugins), orEmptyMap(n.CSINodePlugins)
	return &c
}

func nodesWhere(v View, q *query, keep func(*model.Node) bool) result {
	prefix, full, osName := q.prefix(), q.flag("resources"), q.flag("os")
	if err := isPrefixOfID(prefix); err != nil {
		return failed(err)
	}
	p := page[*model.Node]{
		items: v.Nodes(),
		keep:  func(n *model.Node) bool { return hasPrefixFold(n.ID, prefix) && keep(n) },
		order: func(n *model.Node) order { return order{id: n.ID} },
	}
	return listOf(q, p, func(n *model.Node) *NodeListStub { return nodeStub(n, full, osName) })
}

func listNodes(v View, q *query) result {
	return nodesWhere(v, q, func(*model.Node) bool { return true })
}

func theNode(v View, q *query) (*model.Node, error) {
	return orMissing(v.NodeByID(q.r.PathValue("id")), "node not found")
}

func nodeIndex(n *model.Node) uint64 { return n.ModifyIndex }

func showNode(_ View, _ *query, n *model.Node) result { return shown(publicNode(n)) }

// sameNode rejects a body that names another node than the path.
func sameNode(r *http.Request, id string) error {
	if id != "" && id != r.PathValue("id") {
		return fail(http.StatusBadRequest, "NodeID not same as in request")
	}
	return nil
}

func (s *Server) nodeEligibility(w http.ResponseWriter, r *http.Request) (any, error) {
	var req NodeEligibilityRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if err := sameNode(r, req.NodeID); err != nil {
		return nil, err
	}
	req.NodeID = r.PathValue("id")
	resp, err := s.backend.SetNodeEligibility(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) drainNode(w http.ResponseWriter, r *http.Request) (any, error) {
	var body struct {
		NodeID    string
		DrainSpec *struct {
			Deadline         flexDuration
			IgnoreSystemJobs bool
		}
		MarkEligible bool
		Meta         map[string]string
	}
	if err := decodeBody(r, &body, false); err != nil {
		return nil, err
	}
	if err := sameNode(r, body.NodeID); err != nil {
		return nil, err
	}
	req := NodeDrainRequest{NodeID: r.PathValue("id"), MarkEligible: body.MarkEligible, Meta: body.Meta}
	if body.DrainSpec != nil {
		req.DrainSpec = &DrainSpec{Deadline: time.Duration(body.DrainSpec.Deadline), IgnoreSystemJobs: body.DrainSpec.IgnoreSystemJobs}
	}
	resp, err := s.backend.DrainNode(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

// flexDuration is a duration as nanoseconds or as text ("10s").
type flexDuration time.Duration

// UnmarshalJSON accepts either form.
func (d *flexDuration) UnmarshalJSON(b []byte) error {
	s := strings.Trim(string(b), `"`)
	if s == "" || s == "null" {
		return nil
	}
	if s == string(b) {
		s += "ns"
	}
	v, err := time.ParseDuration(s)
	*d = flexDuration(v)
	return err
}

func (s *Server) evaluateNode(w http.ResponseWriter, r *http.Request) (any, error) {
	resp, err := s.backend.EvaluateNode(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) purgeNode(w http.ResponseWriter, r *http.Request) (any, error) {
	resp, err := s.backend.PurgeNode(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}
