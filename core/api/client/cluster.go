// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// AllocDetail is an alloc in answers.
type AllocDetail struct {
	*model.Allocation
	Resources       *model.Resources
	SharedResources *model.Resources
	TaskResources   map[string]*model.Resources
	// TasksNow is what AllocationTasks returned; servers do not know it.
	TasksNow map[string]*model.TaskNow `json:",omitempty"`
}

// Allocations lists allocs.
func (c *Client) Allocations(ctx context.Context, q *Query) ([]*model.AllocListStub, Meta, error) {
	return get[[]*model.AllocListStub](ctx, c, "/v1/allocations", q)
}

// Allocation reads an alloc with its job.
func (c *Client) Allocation(ctx context.Context, id string, q *Query) (*AllocDetail, Meta, error) {
	return get[*AllocDetail](ctx, c, "/v1/allocation/"+url.PathEscape(id), q)
}

// StopAllocation stops an alloc, which the scheduler then replaces.
func (c *Client) StopAllocation(ctx context.Context, id string, noShutdownDelay bool) (*api.AllocStopResponse, error) {
	q := withParam(nil, "no_shutdown_delay", strconv.FormatBool(noShutdownDelay))
	return put[api.AllocStopResponse](ctx, c, "/v1/allocation/"+url.PathEscape(id)+"/stop", q, struct{}{})
}

// RestartAllocation restarts a task of an alloc, its running tasks (""), or all tasks.
func (c *Client) RestartAllocation(ctx context.Context, id, task string, all bool) error {
	_, err := c.Put(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/restart", nil, map[string]any{"TaskName": task, "AllTasks": all}, nil)
	return err
}

// SignalAllocation sends a signal to a task of an alloc, or to all ("").
func (c *Client) SignalAllocation(ctx context.Context, id, task, signal string) error {
	_, err := c.Put(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/signal", nil, map[string]any{"Task": task, "Signal": signal}, nil)
	return err
}

// FreezeAllocation holds a running task of an alloc where it is, or all ("").
func (c *Client) FreezeAllocation(ctx context.Context, id, task string) error {
	_, err := c.Put(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/freeze", nil, map[string]any{"Task": task}, nil)
	return err
}

// ThawAllocation lets a frozen task of an alloc continue, or all ("").
func (c *Client) ThawAllocation(ctx context.Context, id, task string) error {
	_, err := c.Put(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/thaw", nil, map[string]any{"Task": task}, nil)
	return err
}

// AllocationSchedule returns what the tasks of an alloc that have a schedule do, of one or
// all ("").
func (c *Client) AllocationSchedule(ctx context.Context, id, task string) (*api.AllocPause, error) {
	out, _, err := get[*api.AllocPause](ctx, c, "/v1/client/allocation/"+url.PathEscape(id)+"/pause?task="+url.QueryEscape(task), nil)
	return out, err
}

// DirectAllocation has a task with a schedule, or all ("") of an alloc, pause, run or follow
// it.
func (c *Client) DirectAllocation(ctx context.Context, id, task, state string) (*api.AllocPause, error) {
	var out api.AllocPause
	_, err := c.Put(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/pause", nil, map[string]any{"Task": task, "ScheduleState": state}, &out)
	return &out, err
}

// AllocationTasks returns what the tasks of an alloc do now. The alloc's node answers.
func (c *Client) AllocationTasks(ctx context.Context, id string) (*model.AllocTasks, error) {
	out, _, err := get[*model.AllocTasks](ctx, c, "/v1/client/allocation/"+url.PathEscape(id)+"/tasks", nil)
	return out, err
}

// AllocationChecks reads the results of an alloc's checks into out.
func (c *Client) AllocationChecks(ctx context.Context, id string, out any) error {
	_, err := c.Get(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/checks", nil, out)
	return err
}

// AllocationStats decodes the resource usage of an alloc into out.
func (c *Client) AllocationStats(ctx context.Context, id string, out any) error {
	_, err := c.Get(ctx, "/v1/client/allocation/"+url.PathEscape(id)+"/stats", nil, out)
	return err
}

// Evaluations lists evals.
func (c *Client) Evaluations(ctx context.Context, q *Query) ([]*model.Evaluation, Meta, error) {
	return get[[]*model.Evaluation](ctx, c, "/v1/evaluations", q)
}

// Evaluation returns an eval, with related ones if requested.
func (c *Client) Evaluation(ctx context.Context, id string, related bool, q *Query) (*model.Evaluation, Meta, error) {
	return get[*model.Evaluation](ctx, c, "/v1/evaluation/"+url.PathEscape(id), withParam(q, "related", strconv.FormatBool(related)))
}

// EvaluationAllocations lists the allocs of an eval.
func (c *Client) EvaluationAllocations(ctx context.Context, id string, q *Query) ([]*model.AllocListStub, Meta, error) {
	return get[[]*model.AllocListStub](ctx, c, "/v1/evaluation/"+url.PathEscape(id)+"/allocations", q)
}

// CountEvaluations counts evals.
func (c *Client) CountEvaluations(ctx context.Context, q *Query) (int, error) {
	out, _, err := get[struct{ Count int }](ctx, c, "/v1/evaluations/count", q)
	return out.Count, err
}

// DeleteEvaluations deletes evals by id, or those that match filter.
func (c *Client) DeleteEvaluations(ctx context.Context, ids []string, filter string) (*api.EvalDeleteResponse, error) {
	out := &api.EvalDeleteResponse{}
	if _, err := c.Delete(ctx, "/v1/evaluations", nil, map[string]any{"EvalIDs": ids, "Filter": filter}, out); err != nil {
		return nil, err
	}
	return out, nil
}

// Deployments lists deployments.
func (c *Client) Deployments(ctx context.Context, q *Query) ([]*model.Deployment, Meta, error) {
	return get[[]*model.Deployment](ctx, c, "/v1/deployments", q)
}

// Deployment reads a deployment.
func (c *Client) Deployment(ctx context.Context, id string, q *Query) (*model.Deployment, Meta, error) {
	return get[*model.Deployment](ctx, c, "/v1/deployment/"+url.PathEscape(id), q)
}

// DeploymentAllocations lists the allocs of a deployment.
func (c *Client) DeploymentAllocations(ctx context.Context, id string, q *Query) ([]*model.AllocListStub, Meta, error) {
	return get[[]*model.AllocListStub](ctx, c, "/v1/deployment/allocations/"+url.PathEscape(id), q)
}

// PastDeployments lists deployments, also those that were removed from the state, as far as
// the server that answers still has them.
func (c *Client) PastDeployments(ctx context.Context, q *Query) ([]*model.PastDeployment, Meta, error) {
	return get[[]*model.PastDeployment](ctx, c, "/v1/deployments", withParam(q, "history", "true"))
}

// PastDeployment reads a deployment, also one that was removed from the state.
func (c *Client) PastDeployment(ctx context.Context, id string, q *Query) (*model.PastDeployment, Meta, error) {
	return get[*model.PastDeployment](ctx, c, "/v1/deployment/"+url.PathEscape(id), withParam(q, "history", "true"))
}

// PastEvaluations lists evals, also those that were removed from the state, as far as the
// server that answers still has them.
func (c *Client) PastEvaluations(ctx context.Context, q *Query) ([]*model.PastEvaluation, Meta, error) {
	return get[[]*model.PastEvaluation](ctx, c, "/v1/evaluations", withParam(q, "history", "true"))
}

// PastEvaluation reads an eval, also one that was removed from the state.
func (c *Client) PastEvaluation(ctx context.Context, id string, related bool, q *Query) (*model.PastEvaluation, Meta, error) {
	q = withParam(withParam(q, "related", strconv.FormatBool(related)), "history", "true")
	return get[*model.PastEvaluation](ctx, c, "/v1/evaluation/"+url.PathEscape(id), q)
}

func (c *Client) changeDeployment(ctx context.Context, verb, id string, body any) (*api.DeploymentUpdateResponse, error) {
	return put[api.DeploymentUpdateResponse](ctx, c, "/v1/deployment/"+verb+"/"+url.PathEscape(id), nil, body)
}

// FailDeployment ends a deployment as failed.
func (c *Client) FailDeployment(ctx context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	return c.changeDeployment(ctx, "fail", id, map[string]any{"DeploymentID": id})
}

// PauseDeployment pauses or resumes a deployment.
func (c *Client) PauseDeployment(ctx context.Context, id string, pause bool) (*api.DeploymentUpdateResponse, error) {
	return c.changeDeployment(ctx, "pause", id, map[string]any{"DeploymentID": id, "Pause": pause})
}

// PromoteDeployment promotes the canaries of the groups, or of all if none is named.
func (c *Client) PromoteDeployment(ctx context.Context, id string, groups []string) (*api.DeploymentUpdateResponse, error) {
	return c.changeDeployment(ctx, "promote", id, &api.DeploymentPromoteRequest{DeploymentID: id, All: len(groups) == 0, Groups: groups})
}

// UnblockDeployment unblocks a blocked deployment.
func (c *Client) UnblockDeployment(ctx context.Context, id string) (*api.DeploymentUpdateResponse, error) {
	return c.changeDeployment(ctx, "unblock", id, map[string]any{"DeploymentID": id})
}

// Nodes lists nodes.
func (c *Client) Nodes(ctx context.Context, q *Query) ([]*api.NodeListStub, Meta, error) {
	return get[[]*api.NodeListStub](ctx, c, "/v1/nodes", q)
}

// Node reads a node.
func (c *Client) Node(ctx context.Context, id string, q *Query) (*model.Node, Meta, error) {
	return get[*model.Node](ctx, c, "/v1/node/"+url.PathEscape(id), q)
}

// NodeAllocations lists the allocs of a node.
func (c *Client) NodeAllocations(ctx context.Context, id string, q *Query) ([]*AllocDetail, Meta, error) {
	return get[[]*AllocDetail](ctx, c, "/v1/node/"+url.PathEscape(id)+"/allocations", q)
}

// NodeStats decodes the resource usage of a node ("": the agent's own) into out.
func (c *Client) NodeStats(ctx context.Context, nodeID string, out any) error {
	_, err := c.Get(ctx, "/v1/client/stats", withParam(nil, "node_id", nodeID), out)
	return err
}

// SetNodeEligibility sets whether new allocs may be placed on a node.
func (c *Client) SetNodeEligibility(ctx context.Context, id string, eligible bool) (*api.NodeEligibilityResponse, error) {
	e := model.NodeSchedulingIneligible
	if eligible {
		e = model.NodeSchedulingEligible
	}
	return put[api.NodeEligibilityResponse](ctx, c, "/v1/node/"+url.PathEscape(id)+"/eligibility", nil, &api.NodeEligibilityRequest{NodeID: id, Eligibility: e})
}

// DrainNode starts a drain, or ends it (nil spec).
func (c *Client) DrainNode(ctx context.Context, req *api.NodeDrainRequest) (*api.NodeDrainResponse, error) {
	return put[api.NodeDrainResponse](ctx, c, "/v1/node/"+url.PathEscape(req.NodeID)+"/drain", nil, req)
}

// EvaluateNode creates evaluations for all jobs with allocs on a node.
func (c *Client) EvaluateNode(ctx context.Context, id string) (*api.NodeUpdateResponse, error) {
	return put[api.NodeUpdateResponse](ctx, c, "/v1/node/"+url.PathEscape(id)+"/evaluate", nil, nil)
}

// PurgeNode removes a node from state.
func (c *Client) PurgeNode(ctx context.Context, id string) (*api.NodeUpdateResponse, error) {
	return put[api.NodeUpdateResponse](ctx, c, "/v1/node/"+url.PathEscape(id)+"/purge", nil, nil)
}

// NodePools lists node pools.
func (c *Client) NodePools(ctx context.Context, q *Query) ([]*model.NodePool, Meta, error) {
	return get[[]*model.NodePool](ctx, c, "/v1/node/pools", q)
}

// NodePool reads a node pool.
func (c *Client) NodePool(ctx context.Context, name string, q *Query) (*model.NodePool, Meta, error) {
	return get[*model.NodePool](ctx, c, "/v1/node/pool/"+url.PathEscape(name), q)
}

// ApplyNodePool creates or updates a node pool.
func (c *Client) ApplyNodePool(ctx context.Context, p *model.NodePool) error {
	_, err := c.Put(ctx, "/v1/node/pools", nil, p, nil)
	return err
}

// DeleteNodePool deletes a node pool.
func (c *Client) DeleteNodePool(ctx context.Context, name string) error {
	_, err := c.Delete(ctx, "/v1/node/pool/"+url.PathEscape(name), nil, nil, nil)
	return err
}

// NodePoolNodes lists the nodes of a pool.
func (c *Client) NodePoolNodes(ctx context.Context, name string, q *Query) ([]*api.NodeListStub, Meta, error) {
	return get[[]*api.NodeListStub](ctx, c, "/v1/node/pool/"+url.PathEscape(name)+"/nodes", q)
}

// NodePoolJobs lists the jobs of a pool.
func (c *Client) NodePoolJobs(ctx context.Context, name string, q *Query) ([]*api.JobListStub, Meta, error) {
	return get[[]*api.JobListStub](ctx, c, "/v1/node/pool/"+url.PathEscape(name)+"/jobs", q)
}

// NodeMeta is the metadata of a node, by source.
type NodeMeta struct {
	Meta    map[string]string  // effective values
	Dynamic map[string]*string // set at run time; nil removes a key
	Static  map[string]string  // from the configuration file
}

// NodeMeta reads the metadata of a node ("": the agent's own).
func (c *Client) NodeMeta(ctx context.Context, nodeID string) (*NodeMeta, error) {
	out, _, err := get[*NodeMeta](ctx, c, "/v1/client/metadata", withParam(nil, "node_id", nodeID))
	return out, err
}

// NodeCluster is the cluster of a node and its trust in the servers that answer:
// "believed", "doubted" (they have lost data that the node has seen, so allocs that
// they do not know keep running) or "refused" (they belong to another cluster).
type NodeCluster struct {
	ClusterID string
	Index     uint64
	Standing  string
}

// NodeCluster returns the cluster of a node ("": the agent's own).
func (c *Client) NodeCluster(ctx context.Context, nodeID string) (*NodeCluster, error) {
	out, _, err := get[*NodeCluster](ctx, c, "/v1/client/cluster", withParam(nil, "node_id", nodeID))
	return out, err
}

// NodeIdentity is what the identity of a node says.
type NodeIdentity struct {
	Claims map[string]any
}

// NodeIdentity returns the identity of a node ("": the agent's own).
func (c *Client) NodeIdentity(ctx context.Context, nodeID string) (*NodeIdentity, error) {
	out, _, err := get[*NodeIdentity](ctx, c, "/v1/client/identity", withParam(nil, "node_id", nodeID))
	return out, err
}

// RenewNodeIdentity gives a node ("": the agent's own) a new identity.
func (c *Client) RenewNodeIdentity(ctx context.Context, nodeID string) error {
	_, err := put[struct{}](ctx, c, "/v1/client/identity/renew", withParam(nil, "node_id", nodeID), map[string]any{"NodeID": nodeID})
	return err
}

// Introduction is a token with which a new node may register.
type Introduction struct{ JWT string }

// IntroduceNode returns a token for a new node of a name and a pool, where they are given,
// that is valid for ttl ("": the servers' default).
func (c *Client) IntroduceNode(ctx context.Context, name, pool, ttl string) (*Introduction, error) {
	body := map[string]any{"NodeName": name, "NodePool": pool}
	if ttl != "" {
		body["TTL"] = ttl
	}
	return put[Introduction](ctx, c, "/v1/acl/identity/client-introduction-token", nil, body)
}

// TrustCluster makes a node ("": the agent's own) accept its current servers. It stops
// allocs that they do not know.
func (c *Client) TrustCluster(ctx context.Context, nodeID string) (*NodeCluster, error) {
	return put[NodeCluster](ctx, c, "/v1/client/cluster", withParam(nil, "node_id", nodeID), nil)
}

// ApplyNodeMeta sets metadata of a node ("": the agent's own); nil removes a key.
func (c *Client) ApplyNodeMeta(ctx context.Context, nodeID string, meta map[string]*string) (*NodeMeta, error) {
	return put[NodeMeta](ctx, c, "/v1/client/metadata", withParam(nil, "node_id", nodeID), map[string]any{"NodeID": nodeID, "Meta": meta})
}

// Namespaces lists namespaces.
func (c *Client) Namespaces(ctx context.Context, q *Query) ([]*model.Namespace, Meta, error) {
	return get[[]*model.Namespace](ctx, c, "/v1/namespaces", q)
}

// NamespaceByName reads a namespace.
func (c *Client) NamespaceByName(ctx context.Context, name string, q *Query) (*model.Namespace, Meta, error) {
	return get[*model.Namespace](ctx, c, "/v1/namespace/"+url.PathEscape(name), q)
}

// ApplyNamespace creates or updates a namespace.
func (c *Client) ApplyNamespace(ctx context.Context, ns *model.Namespace) error {
	_, err := c.Put(ctx, "/v1/namespace/"+url.PathEscape(ns.Name), nil, ns, nil)
	return err
}

// DeleteNamespace deletes a namespace.
func (c *Client) DeleteNamespace(ctx context.Context, name string) error {
	_, err := c.Delete(ctx, "/v1/namespace/"+url.PathEscape(name), nil, nil, nil)
	return err
}
