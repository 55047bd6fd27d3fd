// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func jobPath(id, suffix string) string { return "/v1/job/" + url.PathEscape(id) + suffix }

func withParam(q *Query, name, value string) *Query {
	out := Query{}
	if q != nil {
		out = *q
	}
	params := url.Values{name: {value}}
	for k, v := range out.Params {
		params[k] = v
	}
	out.Params = params
	return &out
}

// Jobs lists jobs.
func (c *Client) Jobs(ctx context.Context, q *Query) ([]*api.JobListStub, Meta, error) {
	return get[[]*api.JobListStub](ctx, c, "/v1/jobs", q)
}

// Job reads a job.
func (c *Client) Job(ctx context.Context, id string, q *Query) (*model.Job, Meta, error) {
	return get[*model.Job](ctx, c, jobPath(id, ""), q)
}

// withFindings asks for what the drivers find in a job.
func withFindings() *Query { return &Query{Params: url.Values{"findings": {"true"}}} }

// RegisterJob registers a job. The Job of the request is the draft as JSON.
func (c *Client) RegisterJob(ctx context.Context, req *api.JobRegisterRequest) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, "/v1/jobs", withFindings(), req)
}

// ParseJob lets the agent convert a job file to a draft.
func (c *Client) ParseJob(ctx context.Context, req *api.JobParseRequest) (json.RawMessage, error) {
	out, err := put[json.RawMessage](ctx, c, "/v1/jobs/parse", nil, req)
	if err != nil {
		return nil, err
	}
	return *out, nil
}

// ValidateJob validates a draft without registering it.
func (c *Client) ValidateJob(ctx context.Context, job json.RawMessage) (*api.JobValidateResponse, error) {
	return put[api.JobValidateResponse](ctx, c, "/v1/validate/job", withFindings(), &api.JobValidateRequest{Job: job})
}

// PlanJob returns what registering a draft would change.
func (c *Client) PlanJob(ctx context.Context, id string, req *api.JobPlanRequest) (*api.JobPlanResponse, error) {
	return put[api.JobPlanResponse](ctx, c, jobPath(id, "/plan"), withFindings(), req)
}

// DeregisterJob stops a job.
func (c *Client) DeregisterJob(ctx context.Context, id string, req *api.JobDeregisterRequest) (*api.JobDeregisterResponse, error) {
	q := &Query{Params: url.Values{}}
	if req != nil {
		q.Params.Set("purge", strconv.FormatBool(req.Purge))
		q.Params.Set("global", strconv.FormatBool(req.Global))
		q.Params.Set("no_shutdown_delay", strconv.FormatBool(req.NoShutdownDelay))
		if req.EvalPriority != 0 {
			q.Params.Set("eval_priority", strconv.Itoa(req.EvalPriority))
		}
	}
	out := &api.JobDeregisterResponse{}
	if _, err := c.Delete(ctx, jobPath(id, ""), q, nil, out); err != nil {
		return nil, err
	}
	return out, nil
}

// EvaluateJob creates an evaluation of a job.
func (c *Client) EvaluateJob(ctx context.Context, id string, forceReschedule bool) (*api.JobRegisterResponse, error) {
	req := &api.JobEvaluateRequest{JobID: id}
	req.EvalOptions.ForceReschedule = forceReschedule
	return put[api.JobRegisterResponse](ctx, c, jobPath(id, "/evaluate"), nil, req)
}

// RevertJob reverts a job to an earlier version.
func (c *Client) RevertJob(ctx context.Context, req *api.JobRevertRequest) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, jobPath(req.JobID, "/revert"), nil, req)
}

// ScaleJob sets the count of a group.
func (c *Client) ScaleJob(ctx context.Context, id string, req *api.JobScaleRequest) (*api.JobRegisterResponse, error) {
	return put[api.JobRegisterResponse](ctx, c, jobPath(id, "/scale"), nil, req)
}

// DispatchJob starts a child of a parameterized job.
func (c *Client) DispatchJob(ctx context.Context, req *api.JobDispatchRequest) (*api.JobDispatchResponse, error) {
	q := &Query{}
	if req.IdempotencyToken != "" {
		q = withParam(q, "idempotency_token", req.IdempotencyToken)
	}
	return put[api.JobDispatchResponse](ctx, c, jobPath(req.JobID, "/dispatch"), q, req)
}

// ForcePeriodic launches a child of a periodic job now.
func (c *Client) ForcePeriodic(ctx context.Context, id string) (*api.EvalResponse, error) {
	return put[api.EvalResponse](ctx, c, jobPath(id, "/periodic/force"), nil, nil)
}

// SetJobStability marks a version as stable or not.
func (c *Client) SetJobStability(ctx context.Context, req *api.JobStabilityRequest) (*api.IndexResponse, error) {
	return put[api.IndexResponse](ctx, c, jobPath(req.JobID, "/stable"), nil, req)
}

// JobVersions is the history of a job, newest first. Diffs[i] is the difference
// between Versions[i+1] and Versions[i].
type JobVersions struct {
	Versions []*model.Job
	Diffs    []*model.JobDiff
}

// JobVersions returns the history of a job. If diff is not nil, the answer contains
// differences: to the version or tag in "diff_version" or "diff_tag", otherwise
// between consecutive versions.
func (c *Client) JobVersions(ctx context.Context, id string, diff url.Values) (*JobVersions, error) {
	q := &Query{Params: url.Values{"diffs": {strconv.FormatBool(diff != nil)}}}
	for k, v := range diff {
		q.Params[k] = v
	}
	out, _, err := get[*JobVersions](ctx, c, jobPath(id, "/versions"), q)
	return out, err
}

// TagJobVersion tags a version of a job, the newest one if version is nil.
func (c *Client) TagJobVersion(ctx context.Context, id, name string, version *uint64, description string) error {
	_, err := c.Put(ctx, jobPath(id, "/versions/"+url.PathEscape(name)+"/tag"), nil, &api.JobTagRequest{Version: version, Description: description}, nil)
	return err
}

// UntagJobVersion removes a tag from its version.
func (c *Client) UntagJobVersion(ctx context.Context, id, name string) error {
	_, err := c.Delete(ctx, jobPath(id, "/versions/"+url.PathEscape(name)+"/tag"), nil, nil, nil)
	return err
}

// JobSummary counts the allocs of a job.
func (c *Client) JobSummary(ctx context.Context, id string, q *Query) (*model.JobSummary, Meta, error) {
	return get[*model.JobSummary](ctx, c, jobPath(id, "/summary"), q)
}

// JobAllocations lists the allocs of a job; all includes allocs of earlier jobs with its
// name.
func (c *Client) JobAllocations(ctx context.Context, id string, all bool, q *Query) ([]*model.AllocListStub, Meta, error) {
	return get[[]*model.AllocListStub](ctx, c, jobPath(id, "/allocations"), withParam(q, "all", strconv.FormatBool(all)))
}

// JobEvaluations lists the evals of a job.
func (c *Client) JobEvaluations(ctx context.Context, id string, q *Query) ([]*model.Evaluation, Meta, error) {
	return get[[]*model.Evaluation](ctx, c, jobPath(id, "/evaluations"), q)
}

// JobDeployments lists the deployments of a job.
func (c *Client) JobDeployments(ctx context.Context, id string, all bool, q *Query) ([]*model.Deployment, Meta, error) {
	return get[[]*model.Deployment](ctx, c, jobPath(id, "/deployments"), withParam(q, "all", strconv.FormatBool(all)))
}

// JobDeployment reads the latest deployment of a job, nil if it has none.
func (c *Client) JobDeployment(ctx context.Context, id string, q *Query) (*model.Deployment, Meta, error) {
	answer, meta, err := get[json.RawMessage](ctx, c, jobPath(id, "/deployment"), q)
	if err != nil {
		return nil, meta, err
	}
	var d *model.Deployment
	if err := json.Unmarshal(answer, &d); err != nil {
		return nil, meta, fmt.Errorf("decode the latest deployment of job %q: %w", id, err)
	}
	return d, meta, nil
}

// JobSubmission reads the job file of a version.
func (c *Client) JobSubmission(ctx context.Context, id string, version uint64, q *Query) (*model.JobSubmission, Meta, error) {
	return get[*model.JobSubmission](ctx, c, jobPath(id, "/submission"), withParam(q, "version", strconv.FormatUint(version, 10)))
}

// JobScaling is the information about a job for autoscalers.
type JobScaling struct {
	JobID, Namespace string
	JobStopped       bool
	TaskGroups       map[string]*GroupScaling
}

// GroupScaling is the information about a group for autoscalers, with the changes of
// its count.
type GroupScaling struct {
	Desired, Placed, Running, Healthy, Unhealthy int
	Events                                       []*ScalingEvent
}

// ScalingEvent is a change of a group's count, or a message about it. Count is nil for a message.
type ScalingEvent struct {
	Time          uint64 // Unix ns
	Count         *int64
	PreviousCount int64
	Error         bool
	Message       string
	Meta          map[string]any
	EvalID        string
}

// JobScaling returns the information about a job for autoscalers.
func (c *Client) JobScaling(ctx context.Context, id string) (*JobScaling, error) {
	out, _, err := get[*JobScaling](ctx, c, jobPath(id, "/scale"), nil)
	return out, err
}

// JobActions lists the actions of a job.
func (c *Client) JobActions(ctx context.Context, id string, q *Query) ([]*api.JobAction, Meta, error) {
	return get[[]*api.JobAction](ctx, c, jobPath(id, "/actions"), q)
}

// JobServices lists the instances of the services of a job.
func (c *Client) JobServices(ctx context.Context, id string, q *Query) ([]*model.ServiceRegistration, Meta, error) {
	return get[[]*model.ServiceRegistration](ctx, c, jobPath(id, "/services"), q)
}

// Services lists services by namespace.
func (c *Client) Services(ctx context.Context, q *Query) ([]*api.NamespaceServices, Meta, error) {
	return get[[]*api.NamespaceServices](ctx, c, "/v1/services", q)
}

// Service lists the instances of a service.
func (c *Client) Service(ctx context.Context, name string, q *Query) ([]*model.ServiceRegistration, Meta, error) {
	return get[[]*model.ServiceRegistration](ctx, c, "/v1/service/"+url.PathEscape(name), q)
}

// DeleteService removes an instance of a service from the registry.
func (c *Client) DeleteService(ctx context.Context, name, id string) error {
	_, err := c.Delete(ctx, "/v1/service/"+url.PathEscape(name)+"/"+url.PathEscape(id), nil, nil, nil)
	return err
}

// ScalingPolicies lists scaling policies.
func (c *Client) ScalingPolicies(ctx context.Context, q *Query) ([]*api.ScalingPolicyStub, Meta, error) {
	return get[[]*api.ScalingPolicyStub](ctx, c, "/v1/scaling/policies", q)
}

// ScalingPolicy reads a scaling policy.
func (c *Client) ScalingPolicy(ctx context.Context, id string, q *Query) (*model.ScalingPolicy, Meta, error) {
	return get[*model.ScalingPolicy](ctx, c, "/v1/scaling/policy/"+url.PathEscape(id), q)
}

// Search finds objects whose id starts with prefix, in one context or in "all".
func (c *Client) Search(ctx context.Context, prefix, kind string) (*api.SearchResponse, error) {
	return put[api.SearchResponse](ctx, c, "/v1/search", nil, &api.SearchRequest{Prefix: prefix, Context: kind})
}
