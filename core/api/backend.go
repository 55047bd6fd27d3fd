// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"io"
	"iter"
	"strconv"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
)

// View is a snapshot of the state. *state.View implements it. Objects that it returns
// are shared and never changed. A missing object is nil.
type View interface {
	Index() uint64
	// TableIndex returns the last index that changed one of the tables.
	TableIndex(tables ...string) uint64
	// RemovalIndex returns the last index that removed a row of the table.
	RemovalIndex(table string) uint64

	JobByID(ns, id string) *model.Job
	JobOf(a *model.Allocation) *model.Job // the version that the alloc runs
	JobVersions(ns, id string) []*model.Job
	Jobs(ns string) iter.Seq[*model.Job] // "" is every namespace
	JobSummary(ns, id string) *model.JobSummary
	JobSubmission(ns, id string, version uint64) *model.JobSubmission
	ScalingEvents(ns, id string) map[string][]*model.ScalingEvent // by group, newest first

	AllocByID(id string) *model.Allocation
	AllocsByJob(ns, id string) []*model.Allocation
	AllocsByNode(nodeID string) []*model.Allocation
	AllocsByEval(evalID string) []*model.Allocation
	AllocsByDeployment(id string) []*model.Allocation
	Allocs() iter.Seq[*model.Allocation]

	// Services yields the registrations of a namespace ("" is all).
	Services(ns string) iter.Seq[*model.ServiceRegistration]
	ServicesByName(ns, name string) []*model.ServiceRegistration
	ServicesByJob(ns, id string) []*model.ServiceRegistration
	ServicesByAlloc(id string) []*model.ServiceRegistration

	EvalByID(id string) *model.Evaluation
	EvalsByJob(ns, id string) []*model.Evaluation
	Evals() iter.Seq[*model.Evaluation]

	DeploymentByID(id string) *model.Deployment
	LatestDeployment(ns, jobID string) *model.Deployment
	DeploymentsByJob(ns, id string) []*model.Deployment
	Deployments() iter.Seq[*model.Deployment]

	NodeByID(id string) *model.Node
	Nodes() iter.Seq[*model.Node]

	NamespaceByName(name string) *model.Namespace
	Namespaces() iter.Seq[*model.Namespace]
	NodePoolByName(name string) *model.NodePool
	NodePools() iter.Seq[*model.NodePool]
	SchedulerConfig() *model.SchedulerConfiguration

	VariableByPath(ns, path string) *model.Variable
	// Variables returns the variables of a namespace ("" is all) whose path begins
	// with prefix.
	Variables(ns, prefix string) iter.Seq[*model.Variable]
	RootKeys() iter.Seq[*model.RootKey]

	PluginSpecByName(name string) *model.PluginSpec
	PluginSpecs() iter.Seq[*model.PluginSpec]
	DriverSchemas() iter.Seq[*model.DriverSchema]
	DriverSchemasOf(driver string) []*model.DriverSchema
	DriverUses(driver string) []*model.DriverUse

	HostVolumeByID(id string) *model.HostVolume
	HostVolumes() iter.Seq[*model.HostVolume]
	// HostVolumeUsers returns the allocs that use a volume.
	HostVolumeUsers(vol *model.HostVolume) []*model.Allocation
	VolumeClaims() iter.Seq[*model.VolumeClaim]

	CSIVolumeByID(ns, id string) *model.CSIVolume
	CSIVolumes() iter.Seq[*model.CSIVolume]
	// CSIVolumeHolders returns the allocs that have not ended and ask for a volume.
	CSIVolumeHolders(ns, id string) []*model.Allocation
	CSIPluginByID(id string) *model.CSIPlugin
	CSIPlugins() []*model.CSIPlugin
}

// ReadMode says how fresh a read must be.
type ReadMode int

// Read modes.
const (
	ReadDefault    ReadMode = iota // the leader answers after it has confirmed its leadership
	ReadStale                      // any server answers from its own state
	ReadConsistent                 // the same as ReadDefault; clients of the reference ask for it
)

// ReadMeta is the metadata of a read, for headers.
type ReadMeta struct {
	KnownLeader   bool
	LastContactMS int64
}

// Backend is everything that the HTTP layer needs. Errors are classed (sdk/errdefs)
// and their text is returned to the user.
type Backend interface {
	Reads
	Jobs
	Allocs
	Nodes
	Deployments
	Evals
	History
	Explain
	System
	Operator
	Membership
	Local
	Variables
	Keyring
	PluginRegistry
	HostVolumes
	CSIVolumes
	Schedulers
	Snapshots
}

// Local has the requests that every agent answers itself, even if it is not a server.
type Local interface {
	Agent
	Client
	Inspection
}

// Reads returns snapshots and reports when they are out of date.
type Reads interface {
	// Ready returns once this agent may answer a read of the given mode from its own
	// View.
	Ready(ctx context.Context, mode ReadMode) (ReadMeta, error)
	View() View
	// Watch returns a channel that is closed at the next change of any of the keys
	// after the call. Call it before you take the View.
	Watch(ctx context.Context, keys ...state.Key) <-chan struct{}
	// Changes starts a feed of committed changes of EventTables. It ends with ctx.
	Changes(ctx context.Context) (ChangeFeed, error)
}

// ChangeFeed may be used by one goroutine. After a *LostChangesError it continues with
// the changes after the gap.
type ChangeFeed interface {
	// Since returns the index after which the feed has every change.
	Since() uint64
	Next(ctx context.Context) ([]state.Change, error)
}

// LostChangesError means that a feed has lost the changes up to an index: its reader
// was too slow, or a snapshot was restored.
type LostChangesError struct{ Index uint64 }

func (e *LostChangesError) Error() string {
	return "changes up to index " + strconv.FormatUint(e.Index, 10) + " are lost: read what is of interest anew"
}

// Jobs are the operations on jobs.
type Jobs interface {
	ParseJob(ctx context.Context, req *JobParseRequest) (any, error) // returns the draft as a JSON value; unset fields are null
	ValidateJob(ctx context.Context, req *JobValidateRequest) (*JobValidateResponse, error)
	PlanJob(ctx context.Context, req *JobPlanRequest) (*JobPlanResponse, error)
	RegisterJob(ctx context.Context, req *JobRegisterRequest) (*JobRegisterResponse, error)
	DeregisterJob(ctx context.Context, req *JobDeregisterRequest) (*JobDeregisterResponse, error)
	EvaluateJob(ctx context.Context, req *JobEvaluateRequest) (*JobRegisterResponse, error)
	RevertJob(ctx context.Context, req *JobRevertRequest) (*JobRegisterResponse, error)
	ScaleJob(ctx context.Context, req *JobScaleRequest) (*JobRegisterResponse, error)
	SetJobStability(ctx context.Context, req *JobStabilityRequest) (*IndexResponse, error)
	DispatchJob(ctx context.Context, req *JobDispatchRequest) (*JobDispatchResponse, error)
	ForcePeriodic(ctx context.Context, ns, jobID string) (*EvalResponse, error)
	TagJobVersion(ctx context.Context, req *JobTagRequest) (*IndexResponse, error)
	// DiffJobs compares two versions; its result is encoded as JSON.
	DiffJobs(older, newer *model.Job) (any, error)
}

// Allocs are the operations of servers on allocs.
type Allocs interface {
	StopAlloc(ctx context.Context, allocID string, noShutdownDelay, reschedule bool) (*AllocStopResponse, error)
	DeleteService(ctx context.Context, namespace, name, id string) (index uint64, err error)
}

// Nodes are the operations on nodes.
type Nodes interface {
	SetNodeEligibility(ctx context.Context, req *NodeEligibilityRequest) (*NodeEligibilityResponse, error)
	DrainNode(ctx context.Context, req *NodeDrainRequest) (*NodeDrainResponse, error)
	PurgeNode(ctx context.Context, nodeID string) (*NodeUpdateResponse, error)
	EvaluateNode(ctx context.Context, nodeID string) (*NodeUpdateResponse, error)
}

// Deployments are the operations on deployments.
type Deployments interface {
	FailDeployment(ctx context.Context, id string) (*DeploymentUpdateResponse, error)
	PauseDeployment(ctx context.Context, id string, pause bool) (*DeploymentUpdateResponse, error)
	PromoteDeployment(ctx context.Context, req *DeploymentPromoteRequest) (*DeploymentUpdateResponse, error)
	SetDeploymentAllocHealth(ctx context.Context, req *DeploymentAllocHealthRequest) (*DeploymentUpdateResponse, error)
	UnblockDeployment(ctx context.Context, id string) (*DeploymentUpdateResponse, error)
}

// Evals are the operations on evaluations.
type Evals interface {
	DeleteEvals(ctx context.Context, evalIDs []string) (*EvalDeleteResponse, error)
}

// System are operations on the whole state, namespaces and node pools.
type System interface {
	ForceGC(ctx context.Context) error
	ReconcileSummaries(ctx context.Context) error
	UpsertNamespace(ctx context.Context, ns *model.Namespace) (index uint64, err error)
	DeleteNamespace(ctx context.Context, name string) (index uint64, err error)
	UpsertNodePool(ctx context.Context, pool *model.NodePool) (index uint64, err error)
	DeleteNodePool(ctx context.Context, name string) (index uint64, err error)
}

// Operator are the operations of operators on servers.
type Operator interface {
	QueueLanes() []*QueueLane // of the leader's queue of evaluations, by namespace and node pool
	SetSchedulerConfig(ctx context.Context, cfg *model.SchedulerConfiguration, cas *uint64) (updated bool, index uint64, err error)
	// AutopilotConfig returns the configuration of autopilot that acts.
	AutopilotConfig() *model.AutopilotConfiguration
	SetAutopilotConfig(ctx context.Context, cfg *model.AutopilotConfiguration, cas *uint64) (updated bool, err error)
	RaftConfiguration(ctx context.Context) (*RaftConfiguration, error)
	RemoveRaftPeer(ctx context.Context, id, address string) error
	TransferLeadership(ctx context.Context, id, address string) (*LeadershipTransfer, error)
	AutopilotHealth(ctx context.Context) (*AutopilotHealth, error)
	Leader() string  // "HOST:PORT" of the leader's RPC address, "" without one
	Peers() []string // RPC addresses of the voters
	Regions() []string
}

// Agent is an agent's information about itself.
type Agent interface {
	Region() string
	Self() *AgentSelf
	Servers() []string // RPC addresses of servers that the node side knows
	// SetServers replaces the servers that the node side was configured with.
	// FailedPrecondition: its server is in the same process.
	SetServers(addresses []string) error
	Health() *AgentHealth
	Metrics(ctx context.Context) *MetricsSummary
	Identity() Identity
}

// Membership are the operations on the list of servers.
type Membership interface {
	Members() *AgentMembers
	JoinServers(ctx context.Context, addrs []string) (joined int, err error)
	// ForceLeave marks a failed server as left; prune also removes it from the list.
	ForceLeave(ctx context.Context, name string, prune bool) error
	// GossipKeys changes or lists the keys of the servers' gossip. verb is "list",
	// "install", "use" or "remove".
	GossipKeys(ctx context.Context, verb, key string) (*GossipKeys, error)
}

// Client are the requests that a node answers. The implementation finds the alloc's
// node and forwards the request. Errors: NotFound for a missing alloc, task or file;
// InvalidArgument for a path that leaves the alloc directory.
type Client interface {
	NodeStats(ctx context.Context, nodeID string) (any, error) // "" means this agent's node
	NodeGC(ctx context.Context, nodeID string) error
	// NodeMeta and ApplyNodeMeta return the metadata of a node, and which of it comes
	// from its configuration and which was applied at run time. A nil value removes a
	// key.
	NodeMeta(ctx context.Context, nodeID string) (any, error)
	ApplyNodeMeta(ctx context.Context, nodeID string, meta map[string]*string) (any, error)
	// NodeCluster returns the cluster of a node and whether it trusts its servers.
	// With trust, the node accepts its current servers, whoever they are.
	NodeCluster(ctx context.Context, nodeID string, trust bool) (any, error)
	// NodeIdentity returns what the identity of a node says. With renew, the node gets a
	// new one.
	NodeIdentity(ctx context.Context, nodeID string, renew bool) (any, error)
	// NodePlugins, NodePlugin and ChangeNodePlugin read and change the plugins of a
	// node. The answer to a removal is nil.
	NodePlugins(ctx context.Context, nodeID string) ([]*model.AgentPlugin, error)
	NodePlugin(ctx context.Context, nodeID, name string) (*model.AgentPlugin, error)
	ChangeNodePlugin(ctx context.Context, req *PluginChange, body io.Reader) (*model.AgentPlugin, error)
	AllocGC(ctx context.Context, allocID string) error
	AllocStats(ctx context.Context, allocID, task string) (any, error)
	AllocChecks(ctx context.Context, allocID string) (any, error)
	// AllocTasks returns what an alloc's tasks do now, as only their node knows it.
	AllocTasks(ctx context.Context, allocID string) (any, error)
	RestartAlloc(ctx context.Context, allocID, task string, allTasks bool) error
	SignalAlloc(ctx context.Context, allocID, task, signal string) error
	// PauseAlloc pauses one running task of an alloc, or resumes it; all if task is empty.
	PauseAlloc(ctx context.Context, allocID, task string, pause bool) error
	// DirectAlloc tells one task with a schedule, or all of an alloc, to pause, run or follow
	// it, one of the ScheduleState constants; without a state it only asks. It returns what
	// they do, by task.
	DirectAlloc(ctx context.Context, allocID, task, state string) (map[string]model.TaskScheduleNow, error)
	ListFiles(ctx context.Context, allocID, path string) ([]*model.FileInfo, error)
	StatFile(ctx context.Context, allocID, path string) (*model.FileInfo, error)
	// ReadFile streams a file from offset. A limit below 0 means up to the end.
	ReadFile(ctx context.Context, allocID, path string, offset, limit int64) (io.ReadCloser, error)
	// StreamFile and StreamLogs call send for each frame, including heartbeats, until
	// the file ends or, with Follow, until ctx ends.
	StreamFile(ctx context.Context, req *FileStreamRequest, send func(*model.StreamFrame) error) error
	StreamLogs(ctx context.Context, req *LogStreamRequest, send func(*model.StreamFrame) error) error
	// Exec runs req.Cmd, or the command of the action if one is requested, in a task.
	// It reads in until in is closed and calls send for each output.
	Exec(ctx context.Context, req *ExecRequest, in <-chan *ExecInput, send func(*ExecOutput) error) error
}
