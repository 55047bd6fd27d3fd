// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/core/model"
)

// The methods of a Node, with the types of request and answer. Answers are JSON unless
// they are bytes.
const (
	MethodHostStats         = "host.stats"          // no request; the body of /v1/client/stats
	MethodCollect           = "host.gc"             // no request; no answer
	MethodNodeMeta          = "host.meta"           // no request; NodeMeta
	MethodSetNodeMeta       = "host.meta.set"       // map[string]*string with the changes; NodeMeta
	MethodNodeCluster       = "host.cluster"        // no request; NodeCluster
	MethodTrust             = "host.cluster.trust"  // no request; NodeCluster
	MethodNodeIdentity      = "host.identity"       // no request; NodeIdentity
	MethodRenewIdentity     = "host.identity.renew" // no request; no answer
	MethodAllocGC           = "alloc.gc"            // AllocRequest; no answer
	MethodAllocStats        = "alloc.stats"         // AllocRequest; the body of /v1/client/allocation/ID/stats
	MethodChecks            = "alloc.checks"        // AllocRequest; the body of /v1/client/allocation/ID/checks
	MethodAllocTasks        = "alloc.tasks"         // AllocRequest; model.AllocTasks
	MethodRestart           = "alloc.restart"
	MethodSignal            = "alloc.signal"
	MethodPause             = "alloc.pause"
	MethodDirect            = "alloc.schedule"      // ScheduleRequest; map[string]model.TaskScheduleNow by task
	MethodListFiles         = "fs.ls"               // FileRequest; []FileInfo
	MethodStatFile          = "fs.stat"             // FileRequest; FileInfo
	MethodReadFile          = "fs.read"             // FileRequest; chunks of bytes
	MethodStreamFile        = "fs.stream"           // FileRequest; stream of StreamFrame
	MethodStreamLogs        = "fs.logs"             // LogRequest; stream of StreamFrame
	MethodExec              = "exec"                // ExecRequest; input and output messages as JSON
	MethodValidate          = "driver.validate"     // ValidateRequest; []ValidateAnswer, one per config
	MethodMakeVolume        = "hostvolume.create"   // model.HostVolume; HostVolume
	MethodAdoptVolume       = "hostvolume.register" // model.HostVolume; HostVolume
	MethodRemoveVolume      = "hostvolume.delete"   // HostVolumeRequest; no answer
	MethodCSICreate         = "csi.create"          // StorageCall; volume.Description
	MethodCSIDelete         = "csi.delete"          // StorageCall; no answer
	MethodCSIValidate       = "csi.validate"        // StorageCall; no answer
	MethodCSIList           = "csi.list"            // StorageCall; volume.VolumePage
	MethodCSIExpand         = "csi.expand"          // StorageCall; volume.Expansion
	MethodCSIAttach         = "csi.attach"          // StorageCall; StorageAttached
	MethodCSIDetach         = "csi.detach"          // StorageCall; no answer
	MethodCSISnapshot       = "csi.snapshot"        // StorageCall; volume.Snapshot
	MethodCSIDeleteSnapshot = "csi.snapshot.delete" // StorageCall; no answer
	MethodCSIListSnapshots  = "csi.snapshot.list"   // StorageCall; volume.SnapshotPage
	MethodCSIRelease        = "csi.release"         // StorageCall; no answer
	MethodCSINodeExpand     = "csi.node.expand"     // StorageCall; StorageExpanded
	MethodHTTP              = "http"                // no request; a connection to the agent's HTTP API, bytes both ways

	MethodPlugins       = "plugin.list"    // no request; []*model.AgentPlugin
	MethodPlugin        = "plugin.read"    // PluginRequest with a Name; *model.AgentPlugin
	MethodChangePlugin  = "plugin.change"  // PluginRequest; *model.AgentPlugin, or nothing after a removal
	MethodInstallPlugin = "plugin.install" // PluginRequest, with the file as input if it is Streamed; *model.AgentPlugin
)

// HostVolume is what a node says of a host volume that it has made.
type HostVolume struct {
	HostPath      string
	CapacityBytes int64
}

// HostVolumeRequest names a host volume.
type HostVolumeRequest struct{ ID string }

// AllocRequest names an alloc and, if the method needs it, one of its tasks.
type AllocRequest struct {
	AllocID string
	Task    string `json:",omitempty"`
}

// NodeMeta is a node's metadata: the effective values, the values applied at run time
// (nil removes a configured key), and the configured values.
type NodeMeta struct {
	Meta    map[string]string
	Dynamic map[string]*string
	Static  map[string]string
}

// A node's trust in its servers.
const (
	ClusterBelieved = "believed" // allocs that they do not have are stopped
	ClusterDoubted  = "doubted"  // they have lost data that the node has seen: allocs that they do not have keep running
	ClusterRefused  = "refused"  // they belong to another cluster: the node does not register
)

// NodeCluster is the cluster of a node ("" if none yet), the highest index of its
// history that the node has seen, and the node's trust in the servers that answer.
type NodeCluster struct {
	ClusterID string
	Index     uint64
	Standing  string
}

// NodeIdentity has the claims of a node's identity, by their names in the token.
type NodeIdentity struct {
	Claims map[string]any
}

// RestartRequest restarts one task, all running tasks (Task is empty), or all tasks of
// the alloc including those that have ended (AllTasks).
type RestartRequest struct {
	AllocID  string
	Task     string
	AllTasks bool
}

// SignalRequest sends a signal to one task, or to all if Task is empty.
type SignalRequest struct {
	AllocID string
	Task    string
	Signal  string
}

// PauseRequest pauses one running task, or resumes it; all that run if Task is empty.
type PauseRequest struct {
	AllocID string
	Task    string
	Resume  bool
}

// ScheduleRequest tells a task with a schedule what to do, or all that have one. Without a
// State it only asks.
type ScheduleRequest struct {
	AllocID string
	Task    string
	State   string
}

// FileRequest requests a file of an alloc. A Limit below 0 means up to the end. Origin
// is "start" or "end".
type FileRequest struct {
	AllocID string
	Path    string
	Offset  int64
	Limit   int64
	Origin  string
	Follow  bool
}

// LogRequest requests the log of a task across its rotated files. Type is "stdout" or
// "stderr".
type LogRequest struct {
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
	Action  string
	JobID   string
	Tty     bool
	Cmd     []string
	// User, Dir and Env replace the user, the directory and variables of the task for the
	// command. Drivers without the capability refuse them.
	User string            `json:",omitempty"`
	Dir  string            `json:",omitempty"`
	Env  map[string]string `json:",omitempty"`
}

// MaxValidated is how many configs a ValidateRequest may have.
const MaxValidated = 64

// ValidateRequest makes a driver check the configs of tasks, in the form of the job file:
// attributes that only the start of a task knows may be missing.
type ValidateRequest struct {
	Driver  string
	Configs []map[string]any
}

// ValidateAnswer is a driver's verdict on a config. Unknown is the reason if the driver
// could not check the config.
type ValidateAnswer struct {
	Findings []ConfigFinding `json:",omitempty"`
	Unknown  string          `json:",omitempty"`
}

// ConfigFinding is one finding about a config. Path is the attribute, such as
// config.mount[1].source. With an Error the task would not start.
type ConfigFinding struct {
	Path  string
	Text  string
	Error bool `json:",omitempty"`
}

// Actions of a PluginRequest.
const (
	PluginInstall  = "install"
	PluginUpgrade  = "upgrade" // like install, for an existing plugin
	PluginRollback = "rollback"
	PluginDisable  = "disable"
	PluginEnable   = "enable"
	PluginReload   = "reload"
	PluginRemove   = "remove"
)

// PluginRequest changes a plugin of the node. If it is Streamed, its input is the
// file, which is complete when the input is closed.
type PluginRequest struct {
	Name     string
	Action   string              `json:",omitempty"`
	Force    bool                `json:",omitempty"` // for remove
	Release  model.PluginRelease // for install and upgrade
	Streamed bool                `json:",omitempty"`
	Size     int64               `json:",omitempty"` // size of the Streamed file, if known
	Detach   bool                `json:",omitempty"` // for install and upgrade: answer before the outcome is known
}

// NewCall returns a call of a method. request may be nil.
func NewCall(method string, request any) (Call, error) {
	if request == nil {
		return Call{Method: method}, nil
	}
	body, err := json.Marshal(request)
	if err != nil {
		return Call{}, fmt.Errorf("encode the request %s to a node: %w", method, err)
	}
	return Call{Method: method, Body: body}, nil
}

// Ask makes a call whose answer is one JSON value and returns it. If there is no
// answer, it returns the zero value.
func Ask[T any](ctx context.Context, node Node, method string, request any) (T, error) {
	var answer T
	call, err := NewCall(method, request)
	if err != nil {
		return answer, err
	}
	err = node.Call(ctx, call, nil, func(b []byte) error {
		if err := json.Unmarshal(b, &answer); err != nil {
			return fmt.Errorf("read the node's answer to %s: %w", method, err)
		}
		return nil
	})
	return answer, err
}
