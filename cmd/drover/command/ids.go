// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// shownCandidates is the number of ids that the error for an ambiguous prefix lists.
const shownCandidates = 20

// candidate is an object whose id has the prefix.
type candidate struct{ id, about string }

// ambiguous returns the error for a prefix that several ids have.
func ambiguous(what, prefix string, found []candidate) error {
	var b strings.Builder
	fmt.Fprintf(&b, "prefix %q matches several %ss; give more characters of the id:", prefix, what)
	for i, c := range found {
		if i == shownCandidates {
			fmt.Fprintf(&b, "\n  and %d more", len(found)-i)
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s", c.id, c.about)
	}
	return errors.New(b.String())
}

// article puts the indefinite article before a noun.
func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeiou") {
		return "an " + noun
	}
	return "a " + noun
}

// wholeID resolves the prefix of an id. list returns the ids that have a prefix.
func wholeID(ctx context.Context, what, prefix string, list func(ctx context.Context, q *client.Query) ([]candidate, error)) (string, error) {
	if len(prefix) == 36 {
		return prefix, nil
	}
	if len(prefix) < 2 {
		return "", fmt.Errorf("%q is too short to identify %s; give at least two characters of its id", prefix, article(what))
	}
	query := prefix
	if len(query)%2 == 1 { // servers accept only an even number of digits
		query = query[:len(query)-1]
	}
	all, err := list(ctx, &client.Query{Prefix: query})
	if err != nil {
		return "", err
	}
	var found []candidate
	for _, c := range all {
		if strings.HasPrefix(c.id, prefix) {
			found = append(found, c)
		}
	}
	switch len(found) {
	case 0:
		return "", errdefs.NotFoundf("no %s with prefix or id %q found; list them with: drover %s", what, prefix, listsOf[what])
	case 1:
		return found[0].id, nil
	}
	return "", ambiguous(what, prefix, found)
}

// listsOf maps each kind of object to the command that lists it.
var listsOf = map[string]string{"allocation": "job allocs <job>", "evaluation": "eval list", "deployment": "deployment list",
	"node": "node status", "scaling policy": "scaling policy list", "job": "job status -namespace '*'", "namespace": "namespace list", "node pool": "node pool list", "volume": "volume status"}

func candidatesOf[T any](list []T, of func(T) candidate) []candidate {
	out := make([]candidate, 0, len(list))
	for _, e := range list {
		out = append(out, of(e))
	}
	return out
}

// anyNamespace returns a client that searches all namespaces, unless -namespace was
// given.
func (s *session) anyNamespace() *client.Client {
	if s.cfg.Namespace == "" {
		return s.client.WithNamespace("*")
	}
	return s.client
}

func (s *session) findAlloc(ctx context.Context, prefix string) (*client.AllocDetail, error) {
	id, err := wholeID(ctx, "allocation", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().Allocations(ctx, q)
		return candidatesOf(list, func(a *model.AllocListStub) candidate { return candidate{a.ID, a.Name + ", " + a.ClientStatus} }), err
	})
	if err != nil {
		return nil, err
	}
	a, _, err := s.client.Allocation(ctx, id, nil)
	return a, err
}

func (s *session) findEval(ctx context.Context, prefix string) (*model.Evaluation, error) {
	id, err := wholeID(ctx, "evaluation", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().Evaluations(ctx, q)
		return candidatesOf(list, func(e *model.Evaluation) candidate { return candidate{e.ID, e.JobID + ", " + e.Status} }), err
	})
	if err != nil {
		return nil, err
	}
	e, _, err := s.client.Evaluation(ctx, id, true, nil)
	return e, err
}

func (s *session) findDeployment(ctx context.Context, prefix string) (*model.Deployment, error) {
	id, err := wholeID(ctx, "deployment", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.anyNamespace().Deployments(ctx, q)
		return candidatesOf(list, func(d *model.Deployment) candidate { return candidate{d.ID, d.JobID + ", " + d.Status} }), err
	})
	if err != nil {
		return nil, err
	}
	d, _, err := s.client.Deployment(ctx, id, nil)
	return d, err
}

func (s *session) wholeNodeID(ctx context.Context, prefix string) (string, error) {
	return wholeID(ctx, "node", prefix, func(ctx context.Context, q *client.Query) ([]candidate, error) {
		list, _, err := s.client.Nodes(ctx, q)
		return candidatesOf(list, func(n *api.NodeListStub) candidate { return candidate{n.ID, n.Name + ", " + n.Status} }), err
	})
}

func (s *session) findNode(ctx context.Context, prefix string) (*model.Node, error) {
	id, err := s.wholeNodeID(ctx, prefix)
	if err != nil {
		return nil, err
	}
	n, _, err := s.client.Node(ctx, id, nil)
	return n, err
}

// ownNode returns the id of the agent's own node. The error for an agent without one says how
// the command names another one.
func (s *session) ownNode(ctx context.Context, otherwise string) (string, error) {
	self, err := s.client.AgentSelf(ctx)
	if err != nil {
		return "", err
	}
	id := self.Stats["client"]["node_id"]
	if id == "" {
		return "", fmt.Errorf("the agent does not run a node; %s, from: drover node status", otherwise)
	}
	return id, nil
}

// nodeOrSelf returns the node that the argument or -self selects.
func (s *session) nodeOrSelf(ctx context.Context, args []string, self bool) (*model.Node, error) {
	if self == (len(args) == 1) {
		return nil, errors.New("give either a node or -self")
	}
	id := ""
	if self {
		var err error
		if id, err = s.ownNode(ctx, "give the id of one instead of -self"); err != nil {
			return nil, err
		}
	} else {
		id = args[0]
	}
	return s.findNode(ctx, id)
}

// findJob reads a job by its id or a unique prefix, and uses the job's namespace for
// all further requests.
func (s *session) findJob(ctx context.Context, id string) (*model.Job, error) {
	jobs, _, err := s.client.Jobs(ctx, &client.Query{Prefix: id})
	if err != nil {
		return nil, err
	}
	var exact []*api.JobListStub
	for _, j := range jobs {
		if j.ID == id {
			exact = append(exact, j)
		}
	}
	if len(exact) > 0 {
		jobs = exact
	}
	switch len(jobs) {
	case 0:
		return nil, fmt.Errorf("no job(s) with prefix or ID %q found; list them with: drover %s", id, listsOf["job"])
	case 1:
	default:
		return nil, ambiguous("job", id, candidatesOf(jobs, func(j *api.JobListStub) candidate {
			return candidate{j.ID, "in namespace " + j.Namespace + ", " + j.Status}
		}))
	}
	s.client = s.client.WithNamespace(jobs[0].Namespace)
	job, _, err := s.client.Job(ctx, jobs[0].ID, nil)
	return job, err
}

// ofJob wraps a command whose first argument is a job.
func ofJob(do func(ctx context.Context, s *session, job *model.Job, rest []string) error) run {
	return func(ctx context.Context, s *session, args []string) error {
		job, err := s.findJob(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, s, job, args[1:])
	}
}

// ofAlloc wraps a command whose first argument is an alloc. A second argument or
// -task may name a task.
func ofAlloc(task *string, do func(ctx context.Context, s *session, a *client.AllocDetail) error) run {
	return func(ctx context.Context, s *session, args []string) error {
		if len(args) == 2 && task != nil {
			if *task != "" {
				return errors.New("give the task either as an argument or with -task")
			}
			*task = args[1]
		}
		a, err := s.findAlloc(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, s, a)
	}
}

// ofDeployment wraps a command whose argument is a deployment.
func ofDeployment(do func(ctx context.Context, s *session, d *model.Deployment) error) run {
	return func(ctx context.Context, s *session, args []string) error {
		d, err := s.findDeployment(ctx, args[0])
		if err != nil {
			return err
		}
		return do(ctx, s, d)
	}
}
