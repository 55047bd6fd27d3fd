// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// jobVerbs are the handlers of the path elements that can follow a job's id. Ids may
// contain slashes, so a path is parsed from its end.
func (s *Server) jobVerbs() map[string]func(id string) verbs {
	get := func(h func(http.ResponseWriter, *http.Request, string) (any, error)) func(string) verbs {
		return func(id string) verbs { return verbs{get: bind(h, id)} }
	}
	put := func(h func(http.ResponseWriter, *http.Request, string) (any, error)) func(string) verbs {
		return func(id string) verbs { return verbs{put: bind(h, id)} }
	}
	return map[string]func(string) verbs{
		"/evaluate":       put(s.evaluateJob),
		"/allocations":    get(s.jobAllocs),
		"/evaluations":    get(s.jobEvals),
		"/periodic/force": put(s.forcePeriodic),
		"/plan":           put(s.planJob),
		"/summary":        get(s.jobSummary),
		"/dispatch":       put(s.dispatchJob),
		"/versions":       get(s.jobVersions),
		"/revert":         put(s.revertJob),
		"/deployments":    get(s.jobDeployments),
		"/deployment":     get(s.jobDeployment),
		"/stable":         put(s.stableJob),
		"/services":       get(s.jobServices),
		"/actions":        get(s.jobActions),
		"/action":         get(s.jobAction),
		"/submission":     get(s.jobSubmission),
		"/scale": func(id string) verbs {
			return verbs{get: bind(s.jobScale, id), put: bind(s.scaleJob, id)}
		},
		"/dispatch/payload": get(s.jobPayload),
	}
}

func bind(h func(http.ResponseWriter, *http.Request, string) (any, error), id string) handler {
	return func(w http.ResponseWriter, r *http.Request) (any, error) { return h(w, r, id) }
}

func (s *Server) jobByPath(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.PathValue("rest") == "" {
		return nil, fail(http.StatusBadRequest, "Missing job ID")
	}
	v, pattern, err := s.verbsOfJob(strings.TrimPrefix(r.URL.EscapedPath(), "/v1/job/"))
	if err != nil {
		return nil, fail(http.StatusBadRequest, err.Error())
	}
	h := s.taking(pattern, v).pick(r.Method)
	if h == nil {
		return nil, errMethod
	}
	return h(w, r)
}

// Paths of a job, and of a tag of one of its versions, as in routeParams.
const (
	jobPattern = "/v1/job/{id}"
	tagPattern = jobPattern + "/versions/{name}/tag"
)

// verbsOfJob parses what follows /v1/job/ and returns the handlers and the pattern of
// the path. It parses the escaped path, so that a%2Fplan is the job "a/plan" and not
// the plan of the job "a".
func (s *Server) verbsOfJob(rest string) (v verbs, pattern string, err error) {
	if escaped, tag, ok := cutVersionTag(rest); ok {
		id, err := url.PathUnescape(escaped)
		if err != nil {
			return verbs{}, "", err
		}
		if tag, err = url.PathUnescape(tag); err != nil {
			return verbs{}, "", err
		}
		h := func(w http.ResponseWriter, r *http.Request) (any, error) { return s.tagVersion(w, r, id, tag) }
		return verbs{put: h, del: h}, tagPattern, nil
	}
	of := func(id string) verbs {
		return verbs{get: bind(s.jobByID, id), put: bind(s.updateJob, id), del: bind(s.deleteJob, id)}
	}
	escaped, longest := rest, ""
	for suffix, make := range s.jobVerbs() {
		if id, ok := strings.CutSuffix(rest, suffix); ok && id != "" && len(suffix) > len(longest) {
			escaped, longest, of = id, suffix, make
		}
	}
	id, err := url.PathUnescape(escaped)
	return of(id), jobPattern + longest, err
}

// jobPayload returns the payload of a dispatched job: base64 in JSON, null if there is
// none.
func (s *Server) jobPayload(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.read(w, r, rowsOfJob(r, id), func(v View, q *query) answer {
		j := v.JobByID(q.namespace, id)
		switch {
		case j == nil:
			return notFound(v, state.TableJobs, "job not found")
		case !j.Dispatched:
			return notFound(v, state.TableJobs, "job was not dispatched, so it has no payload")
		}
		return answer{index: j.ModifyIndex, value: JobPayload{Payload: j.Payload}}
	})
}

// cutVersionTag splits "ID/versions/TAG/tag".
func cutVersionTag(rest string) (id, tag string, ok bool) {
	head, ok := strings.CutSuffix(rest, "/tag")
	if !ok {
		return "", "", false
	}
	i := strings.LastIndex(head, "/versions/")
	if i <= 0 {
		return "", "", false
	}
	return head[:i], head[i+len("/versions/"):], true
}

func jobStub(v View, j *model.Job, meta bool) *JobListStub {
	st := &JobListStub{
		ID: j.ID, ParentID: j.ParentID, Name: j.Name, Namespace: j.Namespace, Datacenters: j.Datacenters,
		NodePool: j.NodePool, Multiregion: j.Multiregion, Type: j.Type, Priority: j.Priority,
		Periodic: j.IsPeriodic(), ParameterizedJob: j.IsParameterized(), Stop: j.Stop,
		Status: j.Status, StatusDescription: j.StatusDescription, JobSummary: summaryOf(v, j),
		CreateIndex: j.CreateIndex, ModifyIndex: j.ModifyIndex, JobModifyIndex: j.JobModifyIndex, SubmitTime: j.SubmitTime,
	}
	if meta {
		st.Meta = j.Meta
	}
	return st
}

func summaryOf(v View, j *model.Job) *model.JobSummary {
	sum := v.JobSummary(j.Namespace, j.ID)
	if sum == nil || sum.Children != nil && sum.Summary != nil {
		return sum
	}
	c := *sum
	if c.Children == nil {
		c.Children = &model.JobChildrenSummary{}
	}
	if c.Summary == nil {
		c.Summary = map[string]model.TaskGroupSummary{}
	}
	return &c
}

func (s *Server) listJobs(w http.ResponseWriter, r *http.Request) (any, error) {
	meta, err := boolParam(r, "meta")
	if err != nil {
		return nil, err
	}
	return s.read(w, r, tables(state.TableJobs, state.TableJobSummaries), func(v View, q *query) answer {
		prefix := q.prefix()
		p := page[*model.Job]{
			items: v.Jobs(q.stateNamespace()),
			keep:  func(j *model.Job) bool { return strings.HasPrefix(j.ID, prefix) },
			order: func(j *model.Job) order { return order{id: j.Namespace + "." + j.ID} },
		}
		return listOf(q, v.TableIndex(state.TableJobs, state.TableJobSummaries), p, func(j *model.Job) *JobListStub { return jobStub(v, j, meta) })
	})
}

// ofJob reads an object that belongs to a job. look receives the job, which is not
// nil.
func (s *Server) ofJob(w http.ResponseWriter, r *http.Request, id string, names []string, look func(View, *query, *model.Job) answer) (any, error) {
	return s.read(w, r, rowsOfJob(r, id, names...), func(v View, q *query) answer {
		j := v.JobByID(q.namespace, id)
		if j == nil {
			return notFound(v, state.TableJobs, "job not found")
		}
		return look(v, q, j)
	})
}

func (s *Server) jobByID(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.ofJob(w, r, id, nil, func(_ View, _ *query, j *model.Job) answer {
		return answer{index: j.ModifyIndex, value: j}
	})
}

func (s *Server) jobSummary(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	keys := append(rowsOfJob(r, id), state.Key{Table: state.TableJobSummaries, Value: state.JobKey(namespaceOf(r), id)})
	return s.read(w, r, keys, func(v View, q *query) answer {
		j := v.JobByID(q.namespace, id)
		if j == nil {
			return notFound(v, state.TableJobs, "job not found")
		}
		sum := summaryOf(v, j)
		if sum == nil {
			return notFound(v, state.TableJobs, "job not found")
		}
		return answer{index: sum.ModifyIndex, value: sum}
	})
}

func (s *Server) jobVersions(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	diffs, err := boolParam(r, "diffs")
	if err != nil {
		return nil, err
	}
	keys := append(rowsOfJob(r, id), state.Key{Table: state.TableJobVersions, Value: state.JobKey(namespaceOf(r), id)})
	return s.read(w, r, keys, func(v View, q *query) answer {
		j := v.JobByID(q.namespace, id)
		if j == nil {
			return notFound(v, state.TableJobs, "job not found")
		}
		versions := v.JobVersions(q.namespace, id)
		index := rowsIndex(v, state.TableJobVersions, versions, jobIndex, j.ModifyIndex)
		out := &JobVersionsResponse{Versions: versions, QueryMeta: QueryMeta{Index: index, KnownLeader: true}}
		if diffs {
			if out.Diffs, err = s.versionDiffs(versions, r); err != nil {
				return answer{err: err}
			}
		}
		return answer{index: index, value: out}
	})
}

// versionDiffs compares each version with the previous one, or with the version or tag
// that the request names.
func (s *Server) versionDiffs(versions []*model.Job, r *http.Request) ([]any, error) {
	number, tag := paramsOf(r).get("diff_version"), paramsOf(r).get("diff_tag")
	base := findVersion(versions, number, tag)
	if base == nil && (number != "" || tag != "") {
		return nil, fail(http.StatusBadRequest, "the job has no version "+strconv.Quote(cmp.Or(number, tag))+" to compare with")
	}
	var out []any
	for i, newer := range versions {
		older := base
		if older == nil {
			if i+1 == len(versions) {
				break
			}
			older = versions[i+1]
		} else if older == newer {
			continue
		}
		d, err := s.backend.DiffJobs(older, newer)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

func findVersion(versions []*model.Job, number, tag string) *model.Job {
	for _, j := range versions {
		if number != "" && strconv.FormatUint(j.Version, 10) == number || tag != "" && j.VersionTag != nil && j.VersionTag.Name == tag {
			return j
		}
	}
	return nil
}

func (s *Server) jobSubmission(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	version, err := strconv.ParseUint(paramsOf(r).get("version"), 10, 64)
	if err != nil {
		return nil, fail(http.StatusBadRequest, "Unable to parse job submission version parameter")
	}
	return s.read(w, r, rowsOfJob(r, id), func(v View, q *query) answer {
		sub := v.JobSubmission(q.namespace, id, version)
		if sub == nil {
			return notFound(v, state.TableJobs, "job source not found")
		}
		return answer{index: sub.JobModifyIndex, value: sub}
	})
}

func (s *Server) jobAllocs(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	all, err := boolParam(r, "all")
	if err != nil {
		return nil, err
	}
	return s.read(w, r, rowsOfJob(r, id, state.TableAllocs), func(v View, q *query) answer {
		allocs := slices.Clone(v.AllocsByJob(q.namespace, id))
		if j := v.JobByID(q.namespace, id); j != nil && !all {
			// Allocs of an earlier job with the same name are not shown.
			allocs = slices.DeleteFunc(allocs, func(a *model.Allocation) bool { return !j.Owns(a) })
		}
		newestFirst(allocs, func(a *model.Allocation) order { return order{a.CreateIndex, a.ID} })
		return answer{index: rowsIndex(v, state.TableAllocs, allocs, allocIndex, bornIndex(v, q, id)), value: allocStubs(v, allocs)}
	})
}

func (s *Server) jobEvals(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.read(w, r, rowsOfJob(r, id, state.TableEvals), func(v View, q *query) answer {
		evals := slices.Clone(v.EvalsByJob(q.namespace, id))
		newestFirst(evals, func(e *model.Evaluation) order { return order{e.CreateIndex, e.ID} })
		return answer{index: rowsIndex(v, state.TableEvals, evals, evalIndex), value: orEmpty(evals)}
	})
}

func (s *Server) jobDeployments(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	all, err := boolParam(r, "all")
	if err != nil {
		return nil, err
	}
	return s.read(w, r, rowsOfJob(r, id, state.TableDeployments), func(v View, q *query) answer {
		ds := slices.Clone(v.DeploymentsByJob(q.namespace, id))
		if j := v.JobByID(q.namespace, id); j != nil && !all {
			ds = slices.DeleteFunc(ds, func(d *model.Deployment) bool { return d.JobCreateIndex != 0 && d.JobCreateIndex < j.CreateIndex })
		}
		newestFirst(ds, func(d *model.Deployment) order { return order{d.CreateIndex, d.ID} })
		return answer{index: rowsIndex(v, state.TableDeployments, ds, deploymentIndex, bornIndex(v, q, id)), value: orEmpty(ds)}
	})
}

func (s *Server) jobDeployment(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.read(w, r, rowsOfJob(r, id, state.TableDeployments), func(v View, q *query) answer {
		ds := v.DeploymentsByJob(q.namespace, id)
		return answer{index: rowsIndex(v, state.TableDeployments, ds, deploymentIndex), value: v.LatestDeployment(q.namespace, id)}
	})
}

func (s *Server) jobActions(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.ofJob(w, r, id, nil, func(_ View, _ *query, j *model.Job) answer {
		out := []*JobAction{}
		for _, tg := range j.TaskGroups {
			for _, t := range tg.Tasks {
				for _, a := range t.Actions {
					out = append(out, &JobAction{Name: a.Name, Command: a.Command, Args: a.Args, TaskName: t.Name, TaskGroupName: tg.Name})
				}
			}
		}
		return answer{index: j.ModifyIndex, value: out}
	})
}

func (s *Server) jobScale(w http.ResponseWriter, r *http.Request, id string) (any, error) {
	return s.ofJob(w, r, id, []string{state.TableAllocs, state.TableDeployments, state.TableScalingEvents}, func(v View, q *query, j *model.Job) answer {
		out := &JobScaleStatus{JobID: j.ID, Namespace: j.Namespace, JobCreateIndex: j.CreateIndex,
			JobModifyIndex: j.ModifyIndex, JobStopped: j.Stop, TaskGroups: map[string]*GroupScaleStatus{}}
		index, events := j.ModifyIndex, v.ScalingEvents(q.namespace, id)
		for _, tg := range j.TaskGroups {
			out.TaskGroups[tg.Name] = &GroupScaleStatus{Desired: tg.Count, Events: events[tg.Name]}
			for _, e := range events[tg.Name] {
				index = max(index, e.CreateIndex)
			}
		}
		allocs := v.AllocsByJob(q.namespace, id)
		for _, a := range allocs {
			if g := out.TaskGroups[a.TaskGroup]; g != nil && !a.TerminalStatus() && j.Owns(a) {
				g.count(a)
			}
		}
		return answer{index: rowsIndex(v, state.TableAllocs, allocs, allocIndex, index), value: out}
	})
}

func (g *GroupScaleStatus) count(a *model.Allocation) {
	g.Placed++
	if a.ClientStatus == model.AllocClientStatusRunning {
		g.Running++
	}
	switch {
	case a.DeploymentStatus.IsHealthy():
		g.Healthy++
	case a.DeploymentStatus.IsUnhealthy():
		g.Unhealthy++
	}
}

func newestFirst[T any](list []T, at func(T) order) {
	slices.SortStableFunc(list, func(a, b T) int { return at(b).compare(at(a)) })
}
