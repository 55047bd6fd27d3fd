// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// Lifecycle hooks of a task.
const (
	TaskLifecycleHookPrestart  = "prestart"
	TaskLifecycleHookPoststart = "poststart"
	TaskLifecycleHookPoststop  = "poststop"
)

// Task is one thing that a driver runs.
type Task struct {
	Name   string
	Driver string
	User   string
	Config map[string]any // the driver's own block, validated against its schema

	Env             map[string]string
	Services        []*Service
	Vault           *Vault
	Consul          *Consul
	Templates       []*Template
	Constraints     []*Constraint
	Affinities      []*Affinity
	Resources       *Resources
	RestartPolicy   *RestartPolicy
	DispatchPayload *DispatchPayloadConfig
	Lifecycle       *TaskLifecycleConfig // nil: a main task
	Meta            map[string]string
	KillTimeout     time.Duration
	KillSignal      string
	LogConfig       *LogConfig
	Artifacts       []*TaskArtifact
	Leader          bool
	ShutdownDelay   time.Duration
	VolumeMounts    []*VolumeMount
	ScalingPolicies []*ScalingPolicy
	Kind            string
	CSIPluginConfig *TaskCSIPluginConfig
	Identity        *WorkloadIdentity   // the default identity
	Identities      []*WorkloadIdentity // additional identities
	Actions         []*Action
	Schedule        *TaskSchedule
	Secrets         []*Secret
	DependsOn       []*Dependency `json:",omitempty"` // tasks of the group that come first
}

// TaskLifecycleConfig says when in the life of its group a task runs.
type TaskLifecycleConfig struct {
	Hook    string
	Sidecar bool
}

// DispatchPayloadConfig says where the dispatch payload is written.
type DispatchPayloadConfig struct {
	File string
}

// LogConfig limits the log files of a task.
type LogConfig struct {
	MaxFiles      int
	MaxFileSizeMB int
	Disabled      bool
}

// Action is a named command that a user can run inside a task.
type Action struct {
	Name    string
	Command string
	Args    []string
}

// Secret is a secret that a provider plugin fetches for a task.
type Secret struct {
	Name     string
	Provider string
	Path     string
	Config   map[string]any
	Env      map[string]string
}

// VolumeMount mounts a volume of the group into a task.
type VolumeMount struct {
	Volume          string
	Destination     string
	ReadOnly        bool
	PropagationMode string
	SELinuxLabel    string
}

// Types of CSI plugins: which parts of a driver a task is.
const (
	CSIPluginController = "controller"
	CSIPluginNode       = "node"
	CSIPluginMonolith   = "monolith"
)

// TaskCSIPluginConfig marks a task as a CSI plugin.
type TaskCSIPluginConfig struct {
	ID                  string
	Type                string
	MountDir            string
	StagePublishBaseDir string
	HealthTimeout       time.Duration
}

// TaskArtifact is a file, archive or repository that is fetched before a task starts.
type TaskArtifact struct {
	GetterSource   string
	GetterOptions  map[string]string
	GetterHeaders  map[string]string
	GetterMode     string
	GetterInsecure bool
	RelativeDest   string
	Chown          bool
}

// Template is a file that is rendered for a task.
type Template struct {
	SourcePath    string
	DestPath      string
	EmbeddedTmpl  string
	ChangeMode    string
	ChangeSignal  string
	ChangeScript  *ChangeScript
	Splay         time.Duration
	Once          bool
	Perms         string
	Uid           *int
	Gid           *int
	LeftDelim     string
	RightDelim    string
	Envvars       bool
	VaultGrace    time.Duration
	Wait          *WaitConfig
	ErrMissingKey bool
}

// ChangeScript is a script that runs inside the task when a template changes.
type ChangeScript struct {
	Command          string
	Args             []string
	Timeout          time.Duration
	FailOnError      bool
	RunOnFirstRender bool
}

// WaitConfig delays rendering until the inputs have stopped changing.
type WaitConfig struct {
	Min *time.Duration
	Max *time.Duration
}

// Vault is a task's access to Vault.
type Vault struct {
	Policies             []string
	Role                 string
	Namespace            string
	Cluster              string
	Env                  bool
	DisableFile          bool
	ChangeMode           string
	ChangeSignal         string
	AllowTokenExpiration bool
}
