// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// missing reports whether a JSON value is absent or null.
func missing(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// requestNamespace returns the namespace in the request's parameters, "" if there is
// none.
func requestNamespace(r *http.Request) string { return paramsOf(r).get("namespace") }

func (s *Server) parseJob(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req JobParseRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.HCLv1 {
		return nil, fail(http.StatusBadRequest, "job files of HCL version 1 are not read; write the job in HCL2 and leave hclv1 out")
	}
	if req.JobHCL == "" {
		return nil, fail(http.StatusBadRequest, "Job spec is empty")
	}
	req.Namespace = requestNamespace(r)
	draft, err := s.backend.ParseJob(r.Context(), &req)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Failed to parse job: "+strings.TrimPrefix(err.Error(), "Failed to parse job: "))
	}
	return draft, nil
}

func (s *Server) validateJob(_ http.ResponseWriter, r *http.Request) (any, error) {
	wanted, err := boolParam(r, "findings")
	if err != nil {
		return nil, err
	}
	var req JobValidateRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if missing(req.Job) {
		return nil, fail(http.StatusBadRequest, "Job must be specified")
	}
	req.Namespace = requestNamespace(r)
	resp, err := s.backend.ValidateJob(r.Context(), &req)
	if err != nil {
		return nil, err
	}
	if !wanted {
		resp.Findings = nil
	}
	return resp, nil
}

func (s *Server) planJob(w http.ResponseWriter, r *http.Request) (any, error) {
	var req JobPlanRequest
	wanted, err := readJobRequest(r, &req, &req.Job, &req.PolicyOverride)
	if err != nil {
		return nil, err
	}
	req.JobID, req.Namespace = r.PathValue("id"), requestNamespace(r)
	resp, err := s.backend.PlanJob(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	if !wanted {
		resp.Findings = nil
	}
	return resp, nil
}

// readJobRequest decodes the body of a request with a job, of which job and override are
// fields. The job must have the id in the path, if there is one. findings reports whether
// the client asks for findings.
func readJobRequest(r *http.Request, body any, job *json.RawMessage, override *bool) (findings bool, err error) {
	if findings, err = boolParam(r, "findings"); err != nil {
		return false, err
	}
	if err := decodeBody(r, body, false); err != nil {
		return false, err
	}
	if missing(*job) {
		return false, fail(http.StatusBadRequest, "Job must be specified")
	}
	if id := r.PathValue("id"); id != "" {
		if err := sameJobID(*job, id); err != nil {
			return false, err
		}
	}
	notePolicyOverride(r, *override)
	return findings, nil
}

// notePolicyOverride adds a warning if the request asks to override policies, which do
// not exist.
func notePolicyOverride(r *http.Request, asked bool) {
	if asked {
		note(r, "PolicyOverride is not acted on: this cluster has no policies for jobs that could be overridden")
	}
}

// sameJobID rejects a job whose id differs from the path.
func sameJobID(job json.RawMessage, id string) error {
	var j struct{ ID *string }
	if err := json.Unmarshal(job, &j); err != nil {
		return fail(http.StatusBadRequest, model.WrongType(err, job, &j, "Job").Error())
	}
	switch {
	case j.ID == nil || *j.ID == "":
		return fail(http.StatusBadRequest, "Job must have a valid ID")
	case *j.ID != id:
		return fail(http.StatusBadRequest, "Job ID does not match")
	}
	return nil
}

// registerJob stores the job in the body. It must have the id in the path, if there is
// one.
func (s *Server) registerJob(w http.ResponseWriter, r *http.Request) (any, error) {
	var req JobRegisterRequest
	wanted, err := readJobRequest(r, &req, &req.Job, &req.PolicyOverride)
	if err != nil {
		return nil, err
	}
	req.JobID, req.Namespace = r.PathValue("id"), requestNamespace(r)
	resp, err := s.backend.RegisterJob(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	if !wanted {
		resp.Findings = nil
	}
	return resp, nil
}

func (s *Server) deleteJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	req := JobDeregisterRequest{JobID: id, Namespace: namespaceOf(r)}
	var err error
	if req.Purge, err = boolParam(r, "purge"); err != nil {
		return nil, err
	}
	if req.NoShutdownDelay, err = boolParam(r, "no_shutdown_delay"); err != nil {
		return nil, err
	}
	if p := paramsOf(r).get("eval_priority"); p != "" {
		if req.EvalPriority, err = strconv.Atoi(p); err != nil {
			return nil, fail(http.StatusBadRequest, "Failed to parse value of \"eval_priority\" ("+p+") as an int")
		}
	}
	resp, err := s.backend.DeregisterJob(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

// registered writes the answer to a registration or another change with the same form
// of answer.
func registered(w http.ResponseWriter, resp *JobRegisterResponse, err error) (any, error) {
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) evaluateJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	req := JobEvaluateRequest{}
	if err := decodeBody(r, &req, true); err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != id {
		return nil, fail(http.StatusBadRequest, "JobID not same as in request")
	}
	req.JobID, req.Namespace = id, namespaceOf(r)
	resp, err := s.backend.EvaluateJob(r.Context(), &req)
	return registered(w, resp, err)
}

func (s *Server) revertJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	var req JobRevertRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.JobID != id {
		return nil, fail(http.StatusBadRequest, "Job ID does not match")
	}
	req.Namespace = namespaceOf(r)
	resp, err := s.backend.RevertJob(r.Context(), &req)
	if err == nil {
		setReadMeta(w, resp.Index, ReadMeta{KnownLeader: resp.KnownLeader})
	}
	return registered(w, resp, err)
}

func (s *Server) scaleJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	var req JobScaleRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.Target["Group"] == "" && req.Target["group"] == "" {
		return nil, fail(http.StatusBadRequest, "missing task group name for scaling action")
	}
	notePolicyOverride(r, req.PolicyOverride)
	req.JobID, req.Namespace = id, namespaceOf(r)
	resp, err := s.backend.ScaleJob(r.Context(), &req)
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) stableJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	var req JobStabilityRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.JobID != id {
		return nil, fail(http.StatusBadRequest, "Job ID does not match")
	}
	req.Namespace = namespaceOf(r)
	resp, err := s.backend.SetJobStability(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) dispatchJob(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	var req JobDispatchRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if req.JobID != "" && req.JobID != id {
		return nil, fail(http.StatusBadRequest, "Job ID does not match")
	}
	req.JobID, req.Namespace = id, namespaceOf(r)
	req.IdempotencyToken = paramsOf(r).get("idempotency_token")
	resp, err := s.backend.DispatchJob(r.Context(), &req)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) forcePeriodic(w http.ResponseWriter, r *http.Request) (any, error) {
	id := r.PathValue("id")
	resp, err := s.backend.ForcePeriodic(r.Context(), namespaceOf(r), id)
	if err != nil {
		return plain500(nil, err)
	}
	setIndex(w, resp.Index)
	return resp, nil
}

func (s *Server) tagVersion(w http.ResponseWriter, r *http.Request) (any, error) {
	req := JobTagRequest{}
	if r.Method != http.MethodDelete {
		if err := decodeBody(r, &req, true); err != nil {
			return nil, err
		}
	}
	req.JobID, req.Name = r.PathValue("id"), r.PathValue("name")
	req.Namespace, req.Delete = namespaceOf(r), r.Method == http.MethodDelete
	resp, err := s.backend.TagJobVersion(r.Context(), &req)
	if err != nil {
		return nil, err
	}
	setIndex(w, resp.Index)
	return resp, nil
}
