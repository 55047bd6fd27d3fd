// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"

	"github.com/drover-project/drover/core/model"
)

func listDeployments(v View, q *query) result {
	prefix := q.prefix()
	if err := isPrefixOfID(prefix); err != nil {
		return failed(err)
	}
	p := page[*model.Deployment]{
		items: v.Deployments(),
		keep: func(d *model.Deployment) bool {
			return q.inNamespace(d.Namespace) && hasPrefixFold(d.ID, prefix)
		},
		order:  func(d *model.Deployment) order { return order{d.CreateIndex, d.ID} },
		byTime: true,
	}
	if q.flag("history") {
		return listDeploymentsEver(v, q, p)
	}
	return listOf(q, p, func(d *model.Deployment) *model.Deployment { return d })
}

func theDeployment(v View, q *query) (*model.Deployment, error) {
	return orMissing(v.DeploymentByID(q.r.PathValue("id")), "deployment not found")
}

func deploymentIndex(d *model.Deployment) uint64 { return d.ModifyIndex }

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
