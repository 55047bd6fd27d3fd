// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// Limits of a search.
const (
	searchLimit      = 20
	fuzzyMinTermSize = 2
)

// SearchLimits limit fuzzy searches. Zero values mean the defaults.
type SearchLimits struct {
	NoFuzzy   bool // fuzzy searches are refused
	Results   int  // maximum number of results of each context
	ShortTerm int  // length of the shortest term
}

// SearchRequest finds objects by a prefix of their id.
type SearchRequest struct {
	Prefix  string
	Context string
}

// SearchResponse contains the found ids by context. Truncations says which contexts
// have more.
type SearchResponse struct {
	Matches     map[string][]string
	Truncations map[string]bool
	QueryMeta
}

// FuzzyMatch is a match of a fuzzy search. Scope leads to the matched object, from the
// outermost object inwards.
type FuzzyMatch struct {
	ID    string
	Scope []string `json:",omitempty"`
}

// FuzzyResponse contains the matches of a fuzzy search by context.
type FuzzyResponse struct {
	Matches     map[string][]FuzzyMatch
	Truncations map[string]bool
	QueryMeta
}

// searchContexts are the contexts of a search in "all".
var searchContexts = []string{"allocs", "jobs", "nodes", "node_pools", "evals", "deployment", "plugins",
	"volumes", "host_volumes", "scaling_policy", "vars", "namespaces"}

// names yields the ids of a context in order.
func names(v View, q *query, kind string) iter.Seq[string] {
	switch kind {
	case "jobs":
		return mapSeq(v.Jobs(q.stateNamespace()), func(j *model.Job) (string, bool) { return j.ID, true })
	case "allocs":
		return mapSeq(v.Allocs(), func(a *model.Allocation) (string, bool) { return a.ID, q.inNamespace(a.Namespace) })
	case "evals":
		return mapSeq(v.Evals(), func(e *model.Evaluation) (string, bool) { return e.ID, q.inNamespace(e.Namespace) })
	case "deployment":
		return mapSeq(v.Deployments(), func(d *model.Deployment) (string, bool) { return d.ID, q.inNamespace(d.Namespace) })
	case "nodes":
		return mapSeq(v.Nodes(), func(n *model.Node) (string, bool) { return n.ID, true })
	case "node_pools":
		return mapSeq(v.NodePools(), func(p *model.NodePool) (string, bool) { return p.Name, true })
	case "namespaces":
		return mapSeq(v.Namespaces(), func(n *model.Namespace) (string, bool) { return n.Name, true })
	case "host_volumes":
		return mapSeq(v.HostVolumes(), func(h *model.HostVolume) (string, bool) { return h.ID, q.inNamespace(h.Namespace) })
	case "scaling_policy":
		return mapSeq(policies(v.Jobs(q.stateNamespace())), func(p *model.ScalingPolicy) (string, bool) { return p.ID, true })
	}
	return func(func(string) bool) {}
}

func mapSeq[T any](in iter.Seq[T], f func(T) (string, bool)) iter.Seq[string] {
	return func(yield func(string) bool) {
		for it := range in {
			if s, ok := f(it); ok && !yield(s) {
				return
			}
		}
	}
}

// contextsOf returns the contexts of a request. "deployments" and "policies" are
// aliases of "deployment" and "scaling_policy".
func contextsOf(kind string) ([]string, error) {
	switch kind {
	case "", "all":
		return searchContexts, nil
	case "deployments":
		kind = "deployment"
	}
	if !slices.Contains(searchContexts, kind) {
		return nil, fail(http.StatusInternalServerError, "context must be one of ["+strings.Join(searchContexts, " ")+" all] or 'all' for all contexts; got \""+kind+"\"")
	}
	return []string{kind}, nil
}

func prefixMatches(v View, q *query, kind, prefix string) (found []string, more bool) {
	for name := range names(v, q, kind) {
		if !strings.HasPrefix(name, prefix) {
			continue
		}
		found = append(found, name)
	}
	slices.Sort(found)
	if len(found) > searchLimit {
		return found[:searchLimit], true
	}
	return found, false
}

// searched are the tables that a search reads.
var searched = []string{state.TableJobs, state.TableAllocs, state.TableEvals, state.TableDeployments, state.TableNodes, state.TableNodePools, state.TableNamespaces, state.TableHostVolumes}

func search(r *http.Request, _ *query) (func(View, *query) result, error) {
	var req SearchRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	kinds, err := contextsOf(req.Context)
	if err != nil {
		return nil, err
	}
	return func(v View, q *query) result {
		out := &SearchResponse{Matches: map[string][]string{}, Truncations: map[string]bool{}, QueryMeta: QueryMeta{Index: q.index, KnownLeader: true}}
		for _, kind := range kinds {
			out.Matches[kind], out.Truncations[kind] = prefixMatches(v, q, kind, req.Prefix)
		}
		return shown(out)
	}, nil
}

func searchFuzzy(r *http.Request, q *query) (func(View, *query) result, error) {
	limits := q.s.cfg.Search
	if limits.NoFuzzy {
		return nil, fail(http.StatusInternalServerError, "fuzzy search is not enabled: this server has server { search { fuzzy_enabled = false } }")
	}
	var req struct{ Text, Context string }
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	if shortest := cmp.Or(limits.ShortTerm, fuzzyMinTermSize); len(req.Text) < shortest {
		return nil, fail(http.StatusInternalServerError, "fuzzy search query must be at least "+strconv.Itoa(shortest)+" characters, got "+strconv.Itoa(len(req.Text)))
	}
	kinds, err := contextsOf(req.Context)
	if err != nil {
		return nil, err
	}
	return func(v View, q *query) result {
		f := &fuzzy{most: cmp.Or(limits.Results, searchLimit), text: strings.ToLower(req.Text), out: &FuzzyResponse{Matches: map[string][]FuzzyMatch{}, Truncations: map[string]bool{},
			QueryMeta: QueryMeta{Index: q.index, KnownLeader: true}}}
		for _, kind := range kinds {
			f.look(v, q, kind, req.Text)
		}
		return shown(f.out)
	}, nil
}

// fuzzy collects the matches of a fuzzy search.
type fuzzy struct {
	most int // results of a context
	text string
	out  *FuzzyResponse
}

func (f *fuzzy) add(kind, name string, scope ...string) {
	if !strings.Contains(strings.ToLower(name), f.text) {
		return
	}
	if len(f.out.Matches[kind]) == f.most {
		f.out.Truncations[kind] = true
		return
	}
	f.out.Matches[kind] = append(f.out.Matches[kind], FuzzyMatch{ID: name, Scope: scope})
}

// look searches one context: objects with names by any part of the name, others by a
// prefix of the id.
func (f *fuzzy) look(v View, q *query, kind, text string) {
	f.out.Truncations[kind] = false
	switch kind {
	case "jobs":
		for j := range v.Jobs(q.stateNamespace()) {
			f.job(j)
		}
	case "allocs":
		for a := range v.Allocs() {
			if q.inNamespace(a.Namespace) {
				f.add(kind, a.Name, a.Namespace, a.ID)
			}
		}
	case "nodes":
		for n := range v.Nodes() {
			f.add(kind, n.Name, n.ID)
			f.add("classes", n.NodeClass, n.ID)
		}
	case "host_volumes":
		f.out.Matches[kind] = []FuzzyMatch{} // clients know this context with an empty list
		for h := range v.HostVolumes() {
			if q.inNamespace(h.Namespace) {
				f.add(kind, h.Name, h.Namespace, h.ID)
			}
		}
	case "node_pools", "namespaces", "vars", "plugins":
		for name := range names(v, q, kind) {
			f.add(kind, name)
		}
	default:
		ids, more := prefixMatches(v, q, kind, text)
		f.out.Truncations[kind] = more
		f.out.Matches[kind] = []FuzzyMatch{}
		for _, id := range ids {
			f.out.Matches[kind] = append(f.out.Matches[kind], FuzzyMatch{ID: id})
		}
	}
}

func (f *fuzzy) job(j *model.Job) {
	f.add("jobs", j.Name, j.Namespace, j.ID)
	for _, tg := range j.TaskGroups {
		f.add("groups", tg.Name, j.Namespace, j.ID)
		for _, svc := range tg.Services {
			f.add("services", svc.Name, j.Namespace, j.ID, tg.Name)
		}
		for _, t := range tg.Tasks {
			f.add("tasks", t.Name, j.Namespace, j.ID, tg.Name)
			for _, svc := range t.Services {
				f.add("services", svc.Name, j.Namespace, j.ID, tg.Name, t.Name)
			}
			for key, kind := range map[string]string{"image": "images", "command": "commands", "class": "classes"} {
				if s, ok := t.Config[key].(string); ok {
					f.add(kind, s, j.Namespace, j.ID, tg.Name, t.Name)
				}
			}
		}
	}
}
