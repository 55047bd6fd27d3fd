// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/drover-project/drover/core/model"
)

// The methods of a Node, with the type of the request and of the answer. An
// answer is JSON unless it says bytes.
const (
	MethodHostStats   = "host.stats"         // no request; the body of /v1/client/stats
	MethodCollect     = "host.gc"            // no request; no answer
	MethodNodeMeta    = "host.meta"          // no request; NodeMeta
	MethodSetNodeMeta = "host.meta.set"      // map[string]*string, what changes; NodeMeta
	MethodNodeCluster = "host.cluster"       // no request; NodeCluster
	MethodTrust       = "host.cluster.trust" // no request; NodeCluster
	MethodAllocGC     = "alloc.gc"           // AllocRequest; no answer
	MethodAllocStats  = "alloc.stats"        // AllocRequest; the body of /v1/client/allocation/ID/stats
	MethodChecks      = "alloc.checks"       // AllocRequest; the body of /v1/client/allocation/ID/checks
	MethodRestart     = "alloc.restart"
	MethodSignal      = "alloc.signal"
	MethodListFiles   = "fs.ls"     // FileRequest; []FileInfo
	MethodStatFile    = "fs.stat"   // FileRequest; FileInfo
	MethodReadFile    = "fs.read"   // FileRequest; pieces of bytes
	MethodStreamFile  = "fs.stream" // FileRequest; a StreamFrame each
	MethodStreamLogs  = "fs.logs"   // LogRequest; a StreamFrame each
	MethodExec        = "exec"      // ExecRequest; input and output messages as JSON
	MethodHTTP        = "http"      // no request; a connection to the agent's HTTP API, bytes both ways

	MethodPlugins       = "plugin.list"    // no request; []*model.AgentPlugin
	MethodPlugin        = "plugin.read"    // PluginRequest with a Name; *model.AgentPlugin
	MethodChangePlugin  = "plugin.change"  // PluginRequest; *model.AgentPlugin, none of a removed one
	MethodInstallPlugin = "plugin.install" // PluginRequest, and the file's bytes as input if it is Streamed; *model.AgentPlugin
)

// AllocRequest names an alloc and, where it applies, one task of it.
type AllocRequest struct {
	AllocID string
	Task    string `json:",omitempty"`
}

// NodeMeta is a node's metadata: all of it, what was applied while the node ran
// (nil hides a configured key), and what its configuration says.
type NodeMeta struct {
	Meta    map[string]string
	Dynamic map[string]*string
	Static  map[string]string
}

// What a node thinks of its servers.
const (
	ClusterBelieved = "believed" // what they do not have is stopped
	ClusterDoubted  = "doubted"  // they have lost what they had told: what they do not have runs on
	ClusterRefused  = "refused"  // they are of another cluster: the node does not register
)

// NodeCluster is which cluster a node belongs to ("" for none yet), up to which index
// it has seen its history, and what it thinks of the servers that answer.
type NodeCluster struct {
	ClusterID string
	Index     uint64
	Standing  string
}

// RestartRequest restarts one task, all that run (Task empty), or all tasks of
// the alloc, those that ended included (AllTasks).
type RestartRequest struct {
	AllocID  string
	Task     string
	AllTasks bool
}

// SignalRequest sends a signal to one task or, with Task empty, to all.
type SignalRequest struct {
	AllocID string
	Task    string
	Signal  string
}

// FileRequest asks about a file of an alloc. Limit below 0 is to the end. Origin
// is "start" or "end".
type FileRequest struct {
	AllocID string
	Path    string
	Offset  int64
	Limit   int64
	Origin  string
	Follow  bool
}

// LogRequest asks for the log of a task over its rotated files. Type is "stdout"
// or "stderr".
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
}

// What a PluginRequest does.
const (
	PluginInstall  = "install"
	PluginUpgrade  = "upgrade" // as install, of a plugin that there is
	PluginRollback = "rollback"
	PluginDisable  = "disable"
	PluginEnable   = "enable"
	PluginReload   = "reload"
	PluginRemove   = "remove"
)

// PluginRequest changes a plugin of the node. The input of a Streamed one is the
// file; it is whole when it is closed.
type PluginRequest struct {
	Name     string
	Action   string              `json:",omitempty"`
	Force    bool                `json:",omitempty"` // of remove
	Release  model.PluginRelease // of install and upgrade
	Streamed bool                `json:",omitempty"`
	Size     int64               `json:",omitempty"` // of the Streamed file, where it is known
	Detach   bool                `json:",omitempty"` // of install and upgrade: answer before the outcome is known
}

// FileInfo describes a file of an alloc; its JSON is that of the public API.
type FileInfo struct {
	Name        string
	IsDir       bool
	Size        int64
	FileMode    string
	ModTime     time.Time
	ContentType string `json:",omitempty"`
}

// StreamFrame is a piece of a file or of a log; its JSON is that of the public
// API.
type StreamFrame struct {
	Offset    int64  `json:",omitempty"`
	Data      []byte `json:",omitempty"`
	File      string `json:",omitempty"`
	FileEvent string `json:",omitempty"`
}

// NewCall returns the call of a method; request may be nil.
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

// Ask makes a call whose answer is one JSON value and returns it; a node that
// answers nothing gives the zero value.
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
