// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bufio"
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// knownAlloc looks up the alloc of a request, if this agent has the state.
func (s *Server) knownAlloc(id string) (*model.Allocation, error) {
	if s.backend == nil {
		return nil, nil // the node returns an error if it does not have the alloc
	}
	v := s.backend.View()
	a := v.AllocByID(id)
	if a == nil {
		return nil, fail(http.StatusNotFound, "Unknown allocation \""+id+"\"")
	}
	return withJob(v, a), nil
}

func (s *Server) listFiles(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	files, err := s.local.ListFiles(r.Context(), r.PathValue("id"), cmp.Or(paramsOf(r).get("path"), "/"))
	if err != nil {
		return plain500(nil, err)
	}
	return orEmpty(files), nil
}

func (s *Server) statFile(_ http.ResponseWriter, r *http.Request) (any, error) {
	path := paramsOf(r).get("path")
	if path == "" {
		return nil, fail(http.StatusBadRequest, "must provide a file name")
	}
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	info, err := s.local.StatFile(r.Context(), r.PathValue("id"), path)
	if err != nil {
		return plain500(nil, err)
	}
	return info, nil
}

func (s *Server) catFile(w http.ResponseWriter, r *http.Request) (any, error) {
	return s.sendFile(w, r, 0, -1)
}

func (s *Server) readFileAt(w http.ResponseWriter, r *http.Request) (any, error) {
	offset, err := intParam(r, "offset", 0)
	if err != nil {
		return nil, err
	}
	limit, err := intParam(r, "limit", 0)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = -1 // clients use this value for "up to the end"
	}
	return s.sendFile(w, r, offset, limit)
}

func intParam(r *http.Request, name string, missing int64) (int64, error) {
	v := paramsOf(r).get(name)
	if v == "" {
		return missing, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return 0, fail(http.StatusBadRequest, "error parsing "+name+": "+err.Error())
	}
	return n, nil
}

// sendFile sends the contents of a file with headers that prevent a browser from
// executing it. If the file cannot be read, it answers 200 with the error text like
// the reference, because clients expect that.
func (s *Server) sendFile(w http.ResponseWriter, r *http.Request, offset, limit int64) (any, error) {
	path := paramsOf(r).get("path")
	if path == "" {
		return nil, fail(http.StatusBadRequest, "must provide a file name")
	}
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	body, err := s.local.ReadFile(r.Context(), r.PathValue("id"), path, offset, limit)
	if errdefs.IsNotFound(err) || errdefs.IsInvalidArgument(err) {
		writeError(w, http.StatusOK, err.Error())
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer body.Close()
	buf := bufio.NewReaderSize(body, 32<<10)
	head, err := buf.Peek(512)
	if err != nil && err != io.EOF {
		return nil, err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-XSS-Protection", "1; mode=block")
	h.Set("Content-Type", http.DetectContentType(head))
	if _, err := io.Copy(w, buf); err != nil {
		panic(http.ErrAbortHandler) // a truncated file must not look complete
	}
	return done, nil
}

func originOf(r *http.Request) (string, error) {
	origin := cmp.Or(paramsOf(r).get("origin"), "start")
	if origin != "start" && origin != "end" {
		return "", fail(http.StatusBadRequest, "origin must be start or end")
	}
	return origin, nil
}

// offsetOf returns how many bytes after the start, or before the end, a stream begins.
func offsetOf(r *http.Request) (int64, error) {
	n, err := intParam(r, "offset", 0)
	if err == nil && n < 0 {
		err = fail(http.StatusBadRequest, "offset must not be negative; origin=end counts from the end")
	}
	return n, err
}

func followOf(r *http.Request, missing bool) (bool, error) {
	if paramsOf(r).get("follow") == "" {
		return missing, nil
	}
	return boolParam(r, "follow")
}

func (s *Server) streamFile(w http.ResponseWriter, r *http.Request) (any, error) {
	req := &FileStreamRequest{AllocID: r.PathValue("id"), Path: paramsOf(r).get("path")}
	if req.Path == "" {
		return nil, fail(http.StatusBadRequest, "must provide a file name")
	}
	var err error
	if req.Offset, err = offsetOf(r); err != nil {
		return nil, err
	}
	if req.Origin, err = originOf(r); err != nil {
		return nil, err
	}
	if req.Follow, err = followOf(r, true); err != nil {
		return nil, err
	}
	if _, err = s.knownAlloc(req.AllocID); err != nil {
		return nil, err
	}
	plain, err := boolParam(r, "plain")
	if err != nil {
		return nil, err
	}
	out := newStream(r.Context(), w, plain)
	return done, out.end(s.local.StreamFile(r.Context(), req, out.frame))
}

func (s *Server) streamLogs(w http.ResponseWriter, r *http.Request) (any, error) {
	p := paramsOf(r)
	req := &LogStreamRequest{AllocID: r.PathValue("id"), Task: p.get("task"), Type: p.get("type")}
	if req.Task == "" {
		return nil, fail(http.StatusBadRequest, "must provide task name")
	}
	if req.Type != "stdout" && req.Type != "stderr" {
		return nil, fail(http.StatusBadRequest, "log type must be stdout or stderr")
	}
	var err error
	if req.Offset, err = offsetOf(r); err != nil {
		return nil, err
	}
	if req.Origin, err = originOf(r); err != nil {
		return nil, err
	}
	if req.Follow, err = followOf(r, false); err != nil {
		return nil, err
	}
	plain, err := boolParam(r, "plain")
	if err != nil {
		return nil, err
	}
	a, err := s.knownAlloc(req.AllocID)
	if err != nil {
		return nil, err
	}
	if !hasTask(a, req.Task) {
		return nil, fail(http.StatusBadRequest, "unknown task name "+strconv.Quote(req.Task))
	}
	out := newStream(r.Context(), w, plain)
	return done, out.end(s.local.StreamLogs(r.Context(), req, out.frame))
}

// hasTask reports whether the alloc has the task; it returns true if this agent has no
// state.
func hasTask(a *model.Allocation, task string) bool {
	if a == nil || a.Job == nil {
		return true
	}
	if _, ok := a.TaskStates[task]; ok {
		return true
	}
	tg := a.Job.LookupTaskGroup(a.TaskGroup)
	return tg == nil || tg.LookupTask(task) != nil
}

func (s *Server) clientStats(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.local.NodeStats(r.Context(), paramsOf(r).get("node_id"))
}

func (s *Server) clientGC(_ http.ResponseWriter, r *http.Request) (any, error) {
	return done, s.local.NodeGC(r.Context(), paramsOf(r).get("node_id"))
}

func (s *Server) gcAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	return done, s.local.AllocGC(r.Context(), r.PathValue("id"))
}

func (s *Server) allocStats(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.local.AllocStats(r.Context(), r.PathValue("id"), paramsOf(r).get("task"))
}

func (s *Server) allocChecks(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.local.AllocChecks(r.Context(), r.PathValue("id"))
}

func (s *Server) allocTasks(_ http.ResponseWriter, r *http.Request) (any, error) {
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	return s.local.AllocTasks(r.Context(), r.PathValue("id"))
}

func (s *Server) restartAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req struct {
		TaskName string
		AllTasks bool
	}
	if err := decodeBody(r, &req, true); err != nil {
		return nil, err
	}
	if req.AllTasks && req.TaskName != "" {
		return nil, fail(http.StatusBadRequest, "Can't restart all tasks and a specific task at once")
	}
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	if err := s.local.RestartAlloc(r.Context(), r.PathValue("id"), req.TaskName, req.AllTasks); err != nil {
		return plain500(nil, err)
	}
	return &IndexResponse{}, nil
}

func (s *Server) signalAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req struct {
		Task     string
		TaskName string
		Signal   string
	}
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	if err := s.local.SignalAlloc(r.Context(), r.PathValue("id"), cmp.Or(req.Task, req.TaskName), strings.ToUpper(req.Signal)); err != nil {
		return plain500(nil, err)
	}
	return &IndexResponse{}, nil
}

func (s *Server) freezeAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.pauseAlloc(r, true)
}

func (s *Server) thawAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.pauseAlloc(r, false)
}

// pauseAlloc pauses or resumes one task of an alloc, or all.
func (s *Server) pauseAlloc(r *http.Request, pause bool) (any, error) {
	var req struct{ Task string }
	if err := decodeBody(r, &req, true); err != nil {
		return nil, err
	}
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	if err := s.local.PauseAlloc(r.Context(), r.PathValue("id"), req.Task, pause); err != nil {
		return plain500(nil, err)
	}
	return &IndexResponse{}, nil
}

// AllocPause is the answer about the schedule of tasks. ScheduleState is what the task that was
// asked for does, as in TaskState.Paused, or what all do if they agree: so the client of the
// reference describes it. What tasks were told is in Tasks.
type AllocPause struct {
	ScheduleState string
	Tasks         map[string]model.TaskScheduleNow
}

func (s *Server) allocSchedule(_ http.ResponseWriter, r *http.Request) (any, error) {
	return s.direct(r, paramsOf(r).get("task"), "")
}

func (s *Server) directAlloc(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req struct{ Task, ScheduleState string }
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if err := model.CheckScheduleState(req.ScheduleState); err != nil {
		return nil, err
	}
	return s.direct(r, req.Task, req.ScheduleState)
}

// direct asks the node of an alloc about the schedules of its tasks, and changes them if state
// is set.
func (s *Server) direct(r *http.Request, task, state string) (any, error) {
	if _, err := s.knownAlloc(r.PathValue("id")); err != nil {
		return nil, err
	}
	tasks, err := s.local.DirectAlloc(r.Context(), r.PathValue("id"), task, state)
	if err != nil {
		return plain500(nil, err)
	}
	out := &AllocPause{Tasks: tasks}
	first := true
	for _, t := range tasks {
		if !first && out.ScheduleState != t.Paused {
			out.ScheduleState = ""
			break
		}
		first, out.ScheduleState = false, t.Paused
	}
	return out, nil
}
