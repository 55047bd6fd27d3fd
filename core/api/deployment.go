// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

func (s *Server) listDeployments(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.read(w, r, tables(state.TableDeployments), func(v View, q *query) answer {
		prefix := q.prefix()
		if err := isPrefixOfID(prefix); err != nil {
			return answer{err: err}
		}
		p := page[*model.Deployment]{
			items: v.Deployments(),
			keep: func(d *model.Deployment) bool {
				return q.inNamespace(d.Namespace) && hasPrefixFold(d.ID, prefix)
			},
			order:  func(d *model.Deployment) order { return order{d.CreateIndex, d.ID} },
			byTime: true,
		}
		return listOf(q, v.TableIndex(state.TableDeployments), p, func(d *model.Deployment) *model.Deployment { return d })
	})
}

func (s *Server) deploymentByID(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	if err := checkUUID("deployment", id); err != nil {
		return nil, err
	}
	return s.read(w, r, rows(state.TableDeployments, "", id), func(v View, _ *query) answer {
		d := v.DeploymentByID(id)
		if d == nil {
			return notFound(v, state.TableDeployments, "deployment not found")
		}
		return answer{index: d.ModifyIndex, value: d}
	})
}

func (s *Server) deploymentAllocs(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	return s.read(w, r, rows(state.TableAllocs, state.ByDeployment, id), func(v View, _ *query) answer {
		allocs := v.AllocsByDeployment(id)
		return answer{index: rowsIndex(v, state.TableAllocs, allocs, allocIndex), value: allocStubs(v, allocs)}
	})
}

func deploymentChanged(w http.ResponseWriter, resp *DeploymentUpdateResponse, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) failDeployment(w http.ResponseWriter, r *http.Request) (any, error) {
	resp, err := s.backend.FailDeployment(r.Context(), r.PathValue("id"))
	return deploymentChanged(w, resp, err)
}

func (s *Server) unblockDeployment(w http.ResponseWriter, r *http.Request) (any, error) {
	resp, err := s.backend.UnblockDeployment(r.Context(), r.PathValue("id"))
	return deploymentChanged(w, resp, err)
}

// sameDeployment rejects a body that names another deployment than the path.
func sameDeployment(r *http.Request, id string) error {
	switch id {
	case "":
		return fail(http.StatusBadRequest, "DeploymentID must be specified")
	case r.PathValue("id"):
		return nil
	}
	return fail(http.StatusBadRequest, "Deployment ID does not match")
}

func (s *Server) pauseDeployment(w http.ResponseWriter, r *http.Request) (any, error) {
	var req struct {
		DeploymentID string
		Pause        bool
	}
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if err := sameDeployment(r, req.DeploymentID); err != nil {
		return nil, err
	}
	resp, err := s.backend.PauseDeployment(r.Context(), req.DeploymentID, req.Pause)
	return deploymentChanged(w, resp, err)
}

func (s *Server) promoteDeployment(w http.ResponseWriter, r *http.Request) (any, error) {
	var req DeploymentPromoteRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if err := sameDeployment(r, req.DeploymentID); err != nil {
		return nil, err
	}
	resp, err := s.backend.PromoteDeployment(r.Context(), &req)
	return deploymentChanged(w, resp, err)
}

func (s *Server) deploymentHealth(w http.ResponseWriter, r *http.Request) (any, error) {
	var req DeploymentAllocHealthRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if err := sameDeployment(r, req.DeploymentID); err != nil {
		return nil, err
	}
	resp, err := s.backend.SetDeploymentAllocHealth(r.Context(), &req)
	return deploymentChanged(w, resp, err)
}
