// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/core/model"
)

// contentHash returns a hash of an object without its indexes.
func contentHash(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	sum := sha256.Sum256(b)
	return sum[:]
}

// namespaceView is a namespace in answers.
type namespaceView struct {
	*model.Namespace
	Hash                []byte
	OptionalExtraClaims map[string]string
	RequiredExtraClaims map[string]string
}

func viewNamespace(n *model.Namespace) *namespaceView {
	c := *n
	c.CreateIndex, c.ModifyIndex = 0, 0
	return &namespaceView{Namespace: n, Hash: contentHash(&c)}
}

func listNamespaces(v View, q *query) result {
	prefix := q.prefix()
	p := page[*model.Namespace]{
		items: v.Namespaces(),
		keep:  func(n *model.Namespace) bool { return strings.HasPrefix(n.Name, prefix) },
		order: func(n *model.Namespace) order { return order{id: n.Name} },
	}
	return listOf(q, p, viewNamespace)
}

func theNamespace(v View, q *query) (*model.Namespace, error) {
	return orMissing(v.NamespaceByName(q.r.PathValue("name")), "Namespace not found")
}

func namespaceIndex(n *model.Namespace) uint64 { return n.ModifyIndex }

func showNamespace(_ View, _ *query, n *model.Namespace) result { return shown(viewNamespace(n)) }

func (s *Server) putNamespace(w http.ResponseWriter, r *http.Request) (any, error) {
	var ns model.Namespace
	if err := decodeBody(r, &ns, false); err != nil {
		return nil, err
	}
	if name := r.PathValue("name"); name != "" && ns.Name != name {
		return nil, fail(http.StatusBadRequest, "Namespace name does not match request path")
	}
	if ns.Quota != "" { // refused, because whoever sets a limit relies on it
		return nil, fail(http.StatusBadRequest, fmt.Sprintf("the quota %q of namespace %q cannot be kept: there are no quotas yet, so its jobs could use everything; remove it", ns.Quota, ns.Name))
	}
	if ns.VaultConfiguration != nil {
		note(r, "VaultConfiguration is not acted on: jobs get no tokens of Vault")
	}
	if ns.ConsulConfiguration != nil {
		note(r, "ConsulConfiguration is not acted on: services and tasks of the namespace may use every Consul cluster that nodes reach")
	}
	index, err := s.backend.UpsertNamespace(r.Context(), &ns)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, index)
	return done, nil
}

func (s *Server) deleteNamespace(w http.ResponseWriter, r *http.Request) (any, error) {
	index, err := s.backend.DeleteNamespace(r.Context(), r.PathValue("name"))
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, index)
	return done, nil
}

// nodePoolView is a node pool in answers. Built-in pools have no hash.
type nodePoolView struct {
	*model.NodePool
	Hash []byte
}

func viewNodePool(p *model.NodePool) *nodePoolView {
	if p.Name == model.NodePoolAll || p.Name == model.NodePoolDefault {
		return &nodePoolView{NodePool: p}
	}
	c := *p
	c.CreateIndex, c.ModifyIndex = 0, 0
	return &nodePoolView{NodePool: p, Hash: contentHash(&c)}
}

func listNodePools(v View, q *query) result {
	prefix := q.prefix()
	p := page[*model.NodePool]{
		items: v.NodePools(),
		keep:  func(n *model.NodePool) bool { return strings.HasPrefix(n.Name, prefix) },
		order: func(n *model.NodePool) order { return order{id: n.Name} },
	}
	return listOf(q, p, viewNodePool)
}

func thePool(v View, q *query) (*model.NodePool, error) {
	return orMissing(v.NodePoolByName(q.r.PathValue("name")), "node pool not found")
}

func poolIndex(p *model.NodePool) uint64 { return p.ModifyIndex }

func showPool(_ View, _ *query, p *model.NodePool) result { return shown(viewNodePool(p)) }

func listPoolNodes(v View, q *query) result {
	pool := q.r.PathValue("name")
	return nodesWhere(v, q, func(n *model.Node) bool { return pool == model.NodePoolAll || n.NodePool == pool })
}

func listPoolJobs(v View, q *query) result {
	pool := q.r.PathValue("name")
	return jobsWhere(v, q, func(j *model.Job) bool { return j.NodePool == pool })
}

func (s *Server) putNodePool(w http.ResponseWriter, r *http.Request) (any, error) {
	// The lifetime is given as nanoseconds or as text ("24h").
	var body struct {
		model.NodePool
		NodeIdentityTTL flexDuration
	}
	if err := decodeBody(r, &body, false); err != nil {
		return nil, err
	}
	pool := body.NodePool
	pool.NodeIdentityTTL = time.Duration(body.NodeIdentityTTL)
	if name := r.PathValue("name"); name != "" && pool.Name != name {
		return nil, fail(http.StatusBadRequest, "Node pool name does not match request path")
	}
	index, err := s.backend.UpsertNodePool(r.Context(), &pool)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, index)
	return done, nil
}

func (s *Server) deleteNodePool(w http.ResponseWriter, r *http.Request) (any, error) {
	index, err := s.backend.DeleteNodePool(r.Context(), r.PathValue("name"))
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, index)
	return done, nil
}
