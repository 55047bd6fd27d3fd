// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

// Task is the draft of a model.Task.
type Task struct {
	Name            string                 `hcl:"name,label"`
	Driver          string                 `hcl:"driver"`
	User            string                 `hcl:"user"`
	Lifecycle       *TaskLifecycle         `hcl:"lifecycle,block"`
	Config          map[string]any         `hcl:"config,block"`
	Constraints     []*Constraint          `hcl:"constraint,block"`
	Affinities      []*Affinity            `hcl:"affinity,block"`
	Env             map[string]string      `hcl:"env,block"`
	Services        []*Service             `hcl:"service,block"`
	Resources       *Resources             `hcl:"resources,block"`
	RestartPolicy   *RestartPolicy         `hcl:"restart,block"`
	Meta            map[string]string      `hcl:"meta,block"`
	KillTimeout     *Duration              `hcl:"kill_timeout"`
	LogConfig       *LogConfig             `hcl:"logs,block"`
	Artifacts       []*TaskArtifact        `hcl:"artifact,block"`
	Vault           *Vault                 `hcl:"vault,block"`
	Consul          *Consul                `hcl:"consul,block"`
	Templates       []*Template            `hcl:"template,block"`
	DispatchPayload *DispatchPayloadConfig `hcl:"dispatch_payload,block"`
	VolumeMounts    []*VolumeMount         `hcl:"volume_mount,block"`
	CSIPluginConfig *TaskCSIPluginConfig   `hcl:"csi_plugin,block" json:",omitempty"`
	Leader          bool                   `hcl:"leader"`
	ShutdownDelay   Duration               `hcl:"shutdown_delay"`
	KillSignal      string                 `hcl:"kill_signal"`
	Kind            string                 `hcl:"kind"`
	ScalingPolicies []*ScalingPolicy       `hcl:"scaling,block"`
	Secrets         []*Secret              `hcl:"secret,block"`
	Identities      []*WorkloadIdentity    `hcl:"identity,block"`
	Actions         []*Action              `hcl:"action,block"`
	Schedule        *TaskSchedule          `hcl:"schedule,block"`
	Identity        *WorkloadIdentity      `hcl:"-"`
	DependsOn       []*Dependency          `hcl:"depends_on,block" json:",omitempty"`

	at *block // position in the job file
}

// TaskLifecycle is the draft of a model.TaskLifecycleConfig.
type TaskLifecycle struct {
	Hook    string `hcl:"hook"`
	Sidecar bool   `hcl:"sidecar"`
}

// Dependency is the draft of a model.Dependency.
type Dependency struct {
	Name      string   `hcl:"name,label"`
	Condition string   `hcl:"condition"`
	Timeout   Duration `hcl:"timeout"`
}

// Resources is the draft of a model.Resources.
type Resources struct {
	CPU         *int               `hcl:"cpu"`
	Cores       *int               `hcl:"cores"`
	MemoryMB    *int               `hcl:"memory"`
	MemoryMaxMB *int               `hcl:"memory_max"`
	DiskMB      *int               `hcl:"disk"`
	Networks    []*NetworkResource `hcl:"network,block"`
	Devices     []*RequestedDevice `hcl:"device,block"`
	NUMA        *NUMA              `hcl:"numa,block"`
	SecretsMB   *int               `hcl:"secrets"`
	IOPS        *int               `hcl:"iops"`
}

// NetworkResource is the draft of a model.NetworkResource.
type NetworkResource struct {
	Mode          string     `hcl:"mode"`
	Device        string     `hcl:"device"`
	CIDR          string     `hcl:"cidr"`
	IP            string     `hcl:"ip"`
	DNS           *DNSConfig `hcl:"dns,block"`
	ReservedPorts []Port     `hcl:"reserved_ports,block"`
	DynamicPorts  []Port     `hcl:"port,block"`
	Hostname      string     `hcl:"hostname"`
	MBits         *int       `hcl:"mbits"`
	CNI           *CNIConfig `hcl:"cni,block"`
}

// DNSConfig is the draft of a model.DNSConfig.
type DNSConfig struct {
	Servers  []string `hcl:"servers"`
	Searches []string `hcl:"searches"`
	Options  []string `hcl:"options"`
}

// Port is the draft of a model.Port.
type Port struct {
	Label           string `hcl:",label"`
	Value           int    `hcl:"static"`
	To              int    `hcl:"to"`
	HostNetwork     string `hcl:"host_network"`
	IgnoreCollision bool   `hcl:"ignore_collision"`
}

// CNIConfig is the draft of a model.CNIConfig.
type CNIConfig struct {
	Args map[string]string `hcl:"args,block"`
}

// RequestedDevice is the draft of a model.RequestedDevice.
type RequestedDevice struct {
	Name        string         `hcl:",label"`
	Count       *uint64        `hcl:"count"`
	Constraints []*Constraint  `hcl:"constraint,block"`
	Affinities  []*Affinity    `hcl:"affinity,block"`
	Config      map[string]any `hcl:"config,block" json:",omitempty"`
}

// NUMA is the draft of a model.NUMA.
type NUMA struct {
	Affinity string   `hcl:"affinity"`
	Devices  []string `hcl:"devices"`
}

// LogConfig is the draft of a model.LogConfig.
type LogConfig struct {
	MaxFiles      *int  `hcl:"max_files"`
	MaxFileSizeMB *int  `hcl:"max_file_size"`
	Enabled       *bool `hcl:"enabled"`
	Disabled      *bool `hcl:"disabled"`
}

// VolumeMount is the draft of a model.VolumeMount.
type VolumeMount struct {
	Volume          *string `hcl:"volume"`
	Destination     *string `hcl:"destination"`
	ReadOnly        *bool   `hcl:"read_only"`
	PropagationMode *string `hcl:"propagation_mode"`
	SELinuxLabel    *string `hcl:"selinux_label"`
}

// WorkloadIdentity is the draft of a model.WorkloadIdentity.
type WorkloadIdentity struct {
	Name         string   `hcl:"name"`
	Audience     []string `hcl:"aud"`
	ChangeMode   string   `hcl:"change_mode"`
	ChangeSignal string   `hcl:"change_signal"`
	Env          bool     `hcl:"env"`
	File         bool     `hcl:"file"`
	Filepath     string   `hcl:"filepath"`
	ServiceName  string   `hcl:"service_name"`
	TTL          Duration `hcl:"ttl"`
	ExtraClaims  []string `hcl:"extra_claims"`
}

// TaskArtifact is the draft of a model.TaskArtifact.
type TaskArtifact struct {
	GetterSource   *string           `hcl:"source"`
	GetterOptions  map[string]string `hcl:"options,block"`
	GetterHeaders  map[string]string `hcl:"headers,block"`
	GetterMode     *string           `hcl:"mode"`
	GetterInsecure *bool             `hcl:"insecure"`
	RelativeDest   *string           `hcl:"destination"`
	Chown          bool              `hcl:"chown"`
}

// Vault is the draft of a model.Vault.
type Vault struct {
	Policies             []string `hcl:"policies"`
	Role                 string   `hcl:"role"`
	Namespace            *string  `hcl:"namespace"`
	Cluster              string   `hcl:"cluster"`
	Env                  *bool    `hcl:"env"`
	DisableFile          *bool    `hcl:"disable_file"`
	ChangeMode           *string  `hcl:"change_mode"`
	ChangeSignal         *string  `hcl:"change_signal"`
	AllowTokenExpiration *bool    `hcl:"allow_token_expiration"`
}

// Consul is the draft of a model.Consul.
type Consul struct {
	Namespace string `hcl:"namespace"`
	Cluster   string `hcl:"cluster"`
	Partition string `hcl:"partition"`
}

// Template is the draft of a model.Template.
type Template struct {
	SourcePath    *string       `hcl:"source"`
	DestPath      *string       `hcl:"destination"`
	EmbeddedTmpl  *string       `hcl:"data"`
	ChangeMode    *string       `hcl:"change_mode"`
	ChangeScript  *ChangeScript `hcl:"change_script,block"`
	ChangeSignal  *string       `hcl:"change_signal"`
	Once          *bool         `hcl:"once"`
	Splay         *Duration     `hcl:"splay"`
	Perms         *string       `hcl:"perms"`
	Uid           *int          `hcl:"uid"`
	Gid           *int          `hcl:"gid"`
	LeftDelim     *string       `hcl:"left_delimiter"`
	RightDelim    *string       `hcl:"right_delimiter"`
	Envvars       *bool         `hcl:"env"`
	VaultGrace    *Duration     `hcl:"vault_grace"`
	Wait          *WaitConfig   `hcl:"wait,block"`
	ErrMissingKey *bool         `hcl:"error_on_missing_key"`
}

// ChangeScript is the draft of a model.ChangeScript.
type ChangeScript struct {
	Command          *string   `hcl:"command"`
	Args             []string  `hcl:"args"`
	Timeout          *Duration `hcl:"timeout"`
	FailOnError      *bool     `hcl:"fail_on_error"`
	RunOnFirstRender *bool     `hcl:"run_on_first_render"`
}

// WaitConfig is the draft of a model.WaitConfig.
type WaitConfig struct {
	Min *Duration `hcl:"min"`
	Max *Duration `hcl:"max"`
}

// DispatchPayloadConfig is the draft of a model.DispatchPayloadConfig.
type DispatchPayloadConfig struct {
	File string `hcl:"file"`
}

// TaskCSIPluginConfig is the draft of a model.TaskCSIPluginConfig.
type TaskCSIPluginConfig struct {
	ID                  string   `hcl:"id"`
	Type                string   `hcl:"type"`
	MountDir            string   `hcl:"mount_dir"`
	StagePublishBaseDir string   `hcl:"stage_publish_base_dir"`
	HealthTimeout       Duration `hcl:"health_timeout"`
}

// Secret is the draft of a model.Secret.
type Secret struct {
	Name     string            `hcl:"name,label"`
	Provider string            `hcl:"provider"`
	Path     string            `hcl:"path"`
	Config   map[string]any    `hcl:"config,block"`
	Env      map[string]string `hcl:"env,block"`
}

// Action is the draft of a model.Action.
type Action struct {
	Name    string   `hcl:"name,label"`
	Command string   `hcl:"command"`
	Args    []string `hcl:"args"`
}

// TaskSchedule is the draft of a model.TaskSchedule.
type TaskSchedule struct {
	Cron *TaskScheduleCron `hcl:"cron,block"`
}

// TaskScheduleCron is the draft of a model.TaskScheduleCron.
type TaskScheduleCron struct {
	Start    string `hcl:"start"`
	End      string `hcl:"end"`
	Timezone string `hcl:"timezone"`
}
