// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"encoding/json"
	"time"

	"github.com/drover-project/drover/core/model"
)

// AllocStopResponse is the answer to stopping an alloc.
type AllocStopResponse struct {
	EvalID string
	Index  uint64
}

// NodeEligibilityRequest sets whether new allocs may be placed on a node.
type NodeEligibilityRequest struct {
	NodeID      string
	Eligibility string
}

// NodeEligibilityResponse lists the evals that the change created.
type NodeEligibilityResponse struct {
	NodeModifyIndex uint64
	EvalIDs         []string
	EvalCreateIndex uint64
	Index           uint64
}

// DrainSpec describes a drain.
type DrainSpec struct {
	Deadline         time.Duration
	IgnoreSystemJobs bool
}

// NodeDrainRequest starts a drain, or ends it (nil DrainSpec).
type NodeDrainRequest struct {
	NodeID       string
	DrainSpec    *DrainSpec
	MarkEligible bool
	Meta         map[string]string
}

// NodeDrainResponse is the answer to NodeDrainRequest.
type NodeDrainResponse = NodeEligibilityResponse

// NodeServerInfo is a server to which nodes may connect.
type NodeServerInfo struct {
	RPCAdvertiseAddr string
	RPCMajorVersion  int32
	RPCMinorVersion  int32
	Datacenter       string
}

// NodeUpdateResponse is the answer to evaluating or purging a node.
type NodeUpdateResponse struct {
	HeartbeatTTL          time.Duration
	EvalIDs               []string
	EvalCreateIndex       uint64
	NodeModifyIndex       uint64
	LeaderRPCAddr         string
	NumNodes              int32
	Servers               []*NodeServerInfo
	SchedulingEligibility string
	SignedIdentity        *string
	Features              uint64
	QueryMeta
}

// NodeListStub is the short form of a node in lists.
type NodeListStub struct {
	Address               string
	ID                    string
	Attributes            map[string]string `json:",omitempty"`
	Datacenter            string
	Name                  string
	NodeClass             string
	NodePool              string
	Version               string
	Drain                 bool
	SchedulingEligibility string
	Status                string
	StatusDescription     string
	Drivers               map[string]*model.DriverInfo
	HostVolumes           map[string]*model.HostVolumeConfig
	NodeResources         *model.NodeResources         `json:",omitempty"`
	ReservedResources     *model.NodeReservedResources `json:",omitempty"`
	LastDrain             *model.DrainMetadata
	CreateIndex           uint64
	ModifyIndex           uint64
}

// DeploymentPromoteRequest promotes the canaries of groups.
type DeploymentPromoteRequest struct {
	DeploymentID string
	All          bool
	Groups       []string
}

// DeploymentAllocHealthRequest sets the health of allocs manually.
type DeploymentAllocHealthRequest struct {
	DeploymentID           string
	HealthyAllocationIDs   []string
	UnhealthyAllocationIDs []string
}

// DeploymentUpdateResponse is the answer to every change of a deployment.
type DeploymentUpdateResponse struct {
	EvalID                string
	EvalCreateIndex       uint64
	DeploymentModifyIndex uint64
	RevertedJobVersion    *uint64
	Index                 uint64
}

// EvalDeleteResponse is the number of deleted evals.
type EvalDeleteResponse struct {
	Count int
	Index uint64
}

// RaftServer is one server in the raft configuration.
type RaftServer struct {
	ID           string
	Node         string
	Address      string
	Leader       bool
	Voter        bool
	RaftProtocol string
}

// RaftConfiguration is the raft configuration.
type RaftConfiguration struct {
	Servers []*RaftServer
	Index   uint64
}

// AutopilotServer is the health of one server.
type AutopilotServer struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string
	Version     string
	Leader      bool
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
}

// AutopilotHealth is the health of all servers.
type AutopilotHealth struct {
	Healthy          bool
	FailureTolerance int
	Leader           string
	Voters           []string
	Servers          []*AutopilotServer
}

// LeadershipTransfer names the old and the new leader of a transfer.
type LeadershipTransfer struct {
	From, To RaftPeer
	Noop     bool // To led already
	Err      *string
}

// RaftPeer names a server of the consensus group.
type RaftPeer struct{ Address, ID string }

// AgentMember is one server in the form of the reference's gossip members.
type AgentMember struct {
	Name        string
	Addr        AgentAddr
	Port        uint16
	Tags        map[string]string
	Status      string
	ProtocolMin uint8
	ProtocolMax uint8
	ProtocolCur uint8
	DelegateMin uint8
	DelegateMax uint8
	DelegateCur uint8
}

// AgentAddr is an IP address. An agent without one, which is a node, has null.
type AgentAddr string

// MarshalJSON implements json.Marshaler.
func (a AgentAddr) MarshalJSON() ([]byte, error) {
	if a == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(a))
}

// AgentMembers are all servers.
type AgentMembers struct {
	ServerName   string
	ServerRegion string
	ServerDC     string
	Members      []*AgentMember
}

// AgentSelf is an agent's information about itself. Member is nil if the agent is only
// a node.
type AgentSelf struct {
	Config map[string]any               `json:"config"`
	Member *AgentMember                 `json:"member,omitempty"`
	Stats  map[string]map[string]string `json:"stats"`
}

// StatsDoors is the group of AgentSelf.Stats that lists, by name, the ports that
// accept connections from outside the machine without a certificate. It is absent if
// there are none.
const StatsDoors = "doors"

// AgentHealth is the health of an agent. A side that does not run here is nil.
type AgentHealth struct {
	Client *HealthStatus `json:"client,omitempty"`
	Server *HealthStatus `json:"server,omitempty"`
}

// HealthStatus is the health of one side of an agent.
type HealthStatus struct {
	Message string `json:"message"`
	Ok      bool   `json:"ok"`
}

// MetricsSummary are the agent's metrics of the last interval.
type MetricsSummary struct {
	Timestamp string
	Gauges    []MetricGauge
	Points    []MetricPoint
	Counters  []MetricSample
	Samples   []MetricSample
	// Histograms come from collectors. The reference has none: an answer in JSON has them
	// if the request has histograms=true.
	Histograms []MetricHistogram `json:",omitempty"`
}

// MetricHistogram counts observations by their size since its source began. Counts has one
// count per bucket, without the observations of the buckets before it; the last bucket has
// the observations above all bounds.
type MetricHistogram struct {
	Name   string
	Bounds []float64
	Counts []uint64
	Count  uint64
	Sum    float64
	Labels map[string]string
}

// MetricGauge is a value at a time.
type MetricGauge struct {
	Name   string
	Value  float64
	Labels map[string]string
}

// MetricPoint is a list of values.
type MetricPoint struct {
	Name   string
	Points []float64
}

// MetricSample aggregates values.
type MetricSample struct {
	Name   string
	Count  int
	Rate   float64
	Sum    float64
	Min    float64
	Max    float64
	Mean   float64
	Stddev float64
	Labels map[string]string
	// Total and TotalCount count since the process started, for formats that need
	// totals; Count to Stddev cover the newest interval.
	Total      float64 `json:"-"`
	TotalCount uint64  `json:"-"`
}

// FileStreamRequest streams a file. Origin is "start" or "end".
type FileStreamRequest struct {
	AllocID string
	Path    string
	Offset  int64
	Origin  string
	Follow  bool
}

// LogStreamRequest streams a task's log across its rotated files. Type is "stdout" or
// "stderr".
type LogStreamRequest struct {
	AllocID string
	Task    string
	Type    string
	Offset  int64
	Origin  string
	Follow  bool
}

// ExecRequest runs a command in a task.
type ExecRequest struct {
	AllocID string
	Task    string
	Action  string // run this action of the job instead of Cmd
	JobID   string
	Tty     bool
	Cmd     []string
	// User, Dir and Env replace the user, the directory and variables of the task for the
	// command. Drivers without the capability refuse them.
	User string            `json:",omitempty"`
	Dir  string            `json:",omitempty"`
	Env  map[string]string `json:",omitempty"`
}

// ExecInput is one message from the user of an exec.
type ExecInput struct {
	Stdin   *ExecIO   `json:"stdin,omitempty"`
	TTYSize *TermSize `json:"tty_size,omitempty"`
}

// ExecIO is a piece of a stream, or its end.
type ExecIO struct {
	Data  []byte `json:"data,omitempty"`
	Close bool   `json:"close,omitempty"`
}

// TermSize is the size of a terminal.
type TermSize struct {
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
}

// ExecOutput is one message to the user of an exec.
type ExecOutput struct {
	Stdout *ExecIO     `json:"stdout,omitempty"`
	Stderr *ExecIO     `json:"stderr,omitempty"`
	Exited bool        `json:"exited,omitempty"`
	Result *ExecResult `json:"result,omitempty"`
	// Error says why a command was not run or did not complete; it is set in the last
	// message. The reference has no such field; for its clients the close frame has
	// the same text.
	Error string `json:"error,omitempty"`
}

// ExecResult is the result of a command.
type ExecResult struct {
	ExitCode int `json:"exit_code"`
}
