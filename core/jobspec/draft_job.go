// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

// Draft is a job as its author wrote it: unset values are nil. "job run -output" and
// /v1/jobs/parse print it as JSON.
type Draft struct {
	Region                   *string                 `hcl:"region"`
	Namespace                *string                 `hcl:"namespace"`
	ID                       *string                 `hcl:"id"`
	Name                     *string                 `hcl:"name"`
	Type                     *string                 `hcl:"type"`
	Priority                 *int                    `hcl:"priority"`
	AllAtOnce                *bool                   `hcl:"all_at_once"`
	Datacenters              []string                `hcl:"datacenters"`
	NodePool                 *string                 `hcl:"node_pool"`
	Constraints              []*Constraint           `hcl:"constraint,block"`
	Affinities               []*Affinity             `hcl:"affinity,block"`
	TaskGroups               []*TaskGroup            `hcl:"group,block"`
	Update                   *UpdateStrategy         `hcl:"update,block"`
	Multiregion              *Multiregion            `hcl:"multiregion,block"`
	Spreads                  []*Spread               `hcl:"spread,block"`
	Periodic                 *PeriodicConfig         `hcl:"periodic,block"`
	ParameterizedJob         *ParameterizedJobConfig `hcl:"parameterized,block"`
	Reschedule               *ReschedulePolicy       `hcl:"reschedule,block"`
	Migrate                  *MigrateStrategy        `hcl:"migrate,block"`
	Meta                     map[string]string       `hcl:"meta,block"`
	UI                       *JobUIConfig            `hcl:"ui,block"`
	ParentID                 *string                 `hcl:"-"`
	Dispatched               bool                    `hcl:"-"`
	DispatchIdempotencyToken *string                 `hcl:"-"`
	Payload                  []byte                  `hcl:"-"`
	ConsulNamespace          *string                 `hcl:"-"`
	VaultNamespace           *string                 `hcl:"-"`
	NomadTokenID             *string                 `hcl:"-"`
	Status                   *string                 `hcl:"-"`
	StatusDescription        *string                 `hcl:"-"`
	Stable                   *bool                   `hcl:"-"`
	Stop                     *bool                   `hcl:"-"`
	Version                  *uint64                 `hcl:"-"`
	SubmitTime               *int64                  `hcl:"-"`
	VersionTag               *VersionTag             `hcl:"-"`
	CreateIndex              *uint64                 `hcl:"-"`
	ModifyIndex              *uint64                 `hcl:"-"`
	JobModifyIndex           *uint64                 `hcl:"-"`
	VaultBlock               *Vault                  `hcl:"vault,block" json:"-"` // default for tasks without their own
	DependsOn                []*Dependency           `hcl:"depends_on,block" json:",omitempty"`
	Tasks                    []*Task                 `hcl:"task,block" json:"-"` // short form of groups with one task

	origin *origin // nil for a draft that was not parsed from a file
}

// VersionTag is the tag of a job version.
type VersionTag struct {
	Name        string
	Description string
	TaggedTime  int64
}

// Constraint is the draft of a model.Constraint.
type Constraint struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
}

// Affinity is the draft of a model.Affinity.
type Affinity struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
	Weight  *int8  `hcl:"weight"`
}

// TaskGroup is the draft of a model.TaskGroup.
type TaskGroup struct {
	Name                      *string                   `hcl:"name,label"`
	Count                     *int                      `hcl:"count"`
	Constraints               []*Constraint             `hcl:"constraint,block"`
	Affinities                []*Affinity               `hcl:"affinity,block"`
	Tasks                     []*Task                   `hcl:"task,block"`
	Spreads                   []*Spread                 `hcl:"spread,block"`
	Volumes                   map[string]*VolumeRequest `hcl:"volume,block"`
	RestartPolicy             *RestartPolicy            `hcl:"restart,block"`
	Disconnect                *DisconnectStrategy       `hcl:"disconnect,block"`
	ReschedulePolicy          *ReschedulePolicy         `hcl:"reschedule,block"`
	EphemeralDisk             *EphemeralDisk            `hcl:"ephemeral_disk,block"`
	Update                    *UpdateStrategy           `hcl:"update,block"`
	Migrate                   *MigrateStrategy          `hcl:"migrate,block"`
	Networks                  []*NetworkResource        `hcl:"network,block"`
	Meta                      map[string]string         `hcl:"meta,block"`
	Services                  []*Service                `hcl:"service,block"`
	ShutdownDelay             *Duration                 `hcl:"shutdown_delay"`
	MaxRunDuration            *Duration                 `hcl:"max_run_duration"`
	StopAfterClientDisconnect *Duration                 `hcl:"stop_after_client_disconnect"`
	MaxClientDisconnect       *Duration                 `hcl:"max_client_disconnect"`
	Scaling                   *ScalingPolicy            `hcl:"scaling,block"`
	Consul                    *Consul                   `hcl:"consul,block"`
	PreventRescheduleOnLost   *bool                     `hcl:"prevent_reschedule_on_lost"`
	DependsOn                 []*Dependency             `hcl:"depends_on,block" json:",omitempty"`
	VaultBlock                *Vault                    `hcl:"vault,block" json:"-"` // default for tasks without their own

	at *block // position in the job file
}

// RestartPolicy is the draft of a model.RestartPolicy.
type RestartPolicy struct {
	Interval        *Duration `hcl:"interval"`
	Attempts        *int      `hcl:"attempts"`
	Delay           *Duration `hcl:"delay"`
	Mode            *string   `hcl:"mode"`
	RenderTemplates *bool     `hcl:"render_templates"`
}

// ScalingPolicy is the draft of a model.ScalingPolicy.
type ScalingPolicy struct {
	Min         *int64            `hcl:"min"`
	Max         *int64            `hcl:"max"`
	Policy      map[string]any    `hcl:"policy,block"`
	Enabled     *bool             `hcl:"enabled"`
	Type        string            `hcl:"type"`
	ID          string            `hcl:"-"`
	Namespace   string            `hcl:"-"`
	Target      map[string]string `hcl:"-"`
	CreateIndex uint64            `hcl:"-"`
	ModifyIndex uint64            `hcl:"-"`
}

// Spread is the draft of a model.Spread.
type Spread struct {
	Attribute    string          `hcl:"attribute"`
	Weight       *int8           `hcl:"weight"`
	SpreadTarget []*SpreadTarget `hcl:"target,block"`
}

// SpreadTarget is the draft of a model.SpreadTarget.
type SpreadTarget struct {
	Value   string `hcl:",label"`
	Percent uint8  `hcl:"percent"`
}

// VolumeRequest is the draft of a model.VolumeRequest.
type VolumeRequest struct {
	Name           string           `hcl:"name,label"`
	Type           string           `hcl:"type"`
	Source         string           `hcl:"source"`
	ReadOnly       bool             `hcl:"read_only"`
	Sticky         bool             `hcl:"sticky"`
	AccessMode     string           `hcl:"access_mode"`
	AttachmentMode string           `hcl:"attachment_mode"`
	MountOptions   *CSIMountOptions `hcl:"mount_options,block"`
	PerAlloc       bool             `hcl:"per_alloc"`
}

// CSIMountOptions is the draft of a model.CSIMountOptions.
type CSIMountOptions struct {
	FSType     string   `hcl:"fs_type"`
	MountFlags []string `hcl:"mount_flags"`
}

// DisconnectStrategy is the draft of a model.DisconnectStrategy.
type DisconnectStrategy struct {
	LostAfter         *Duration `hcl:"lost_after"`
	StopOnClientAfter *Duration `hcl:"stop_on_client_after"`
	Replace           *bool     `hcl:"replace"`
	Reconcile         *string   `hcl:"reconcile"`
}

// ReschedulePolicy is the draft of a model.ReschedulePolicy.
type ReschedulePolicy struct {
	Attempts      *int      `hcl:"attempts"`
	Interval      *Duration `hcl:"interval"`
	Delay         *Duration `hcl:"delay"`
	DelayFunction *string   `hcl:"delay_function"`
	MaxDelay      *Duration `hcl:"max_delay"`
	Unlimited     *bool     `hcl:"unlimited"`
}

// EphemeralDisk is the draft of a model.EphemeralDisk.
type EphemeralDisk struct {
	Sticky  *bool `hcl:"sticky"`
	Migrate *bool `hcl:"migrate"`
	SizeMB  *int  `hcl:"size"`
}

// UpdateStrategy is the draft of a model.UpdateStrategy.
type UpdateStrategy struct {
	Stagger          *Duration `hcl:"stagger"`
	MaxParallel      *int      `hcl:"max_parallel"`
	HealthCheck      *string   `hcl:"health_check"`
	MinHealthyTime   *Duration `hcl:"min_healthy_time"`
	HealthyDeadline  *Duration `hcl:"healthy_deadline"`
	ProgressDeadline *Duration `hcl:"progress_deadline"`
	Canary           *int      `hcl:"canary"`
	AutoRevert       *bool     `hcl:"auto_revert"`
	AutoPromote      *bool     `hcl:"auto_promote"`
	Resources        *string   `hcl:"resources" json:",omitempty"`
}

// MigrateStrategy is the draft of a model.MigrateStrategy.
type MigrateStrategy struct {
	MaxParallel     *int      `hcl:"max_parallel"`
	HealthCheck     *string   `hcl:"health_check"`
	MinHealthyTime  *Duration `hcl:"min_healthy_time"`
	HealthyDeadline *Duration `hcl:"healthy_deadline"`
}

// Multiregion is the draft of a model.Multiregion.
type Multiregion struct {
	Strategy *MultiregionStrategy `hcl:"strategy,block"`
	Regions  []*MultiregionRegion `hcl:"region,block"`
}

// MultiregionStrategy is the draft of a model.MultiregionStrategy.
type MultiregionStrategy struct {
	MaxParallel *int    `hcl:"max_parallel"`
	OnFailure   *string `hcl:"on_failure"`
}

// MultiregionRegion is the draft of a model.MultiregionRegion.
type MultiregionRegion struct {
	Name        string            `hcl:",label"`
	Count       *int              `hcl:"count"`
	Datacenters []string          `hcl:"datacenters"`
	NodePool    string            `hcl:"node_pool"`
	Meta        map[string]string `hcl:"meta,block"`
}

// PeriodicConfig is the draft of a model.PeriodicConfig.
type PeriodicConfig struct {
	Enabled         *bool    `hcl:"enabled"`
	Spec            *string  `hcl:"cron"`
	Specs           []string `hcl:"crons"`
	ProhibitOverlap *bool    `hcl:"prohibit_overlap"`
	TimeZone        *string  `hcl:"time_zone"`
	SpecType        *string  `hcl:"-"`
}

// ParameterizedJobConfig is the draft of a model.ParameterizedJobConfig.
type ParameterizedJobConfig struct {
	Payload      string   `hcl:"payload"`
	MetaRequired []string `hcl:"meta_required"`
	MetaOptional []string `hcl:"meta_optional"`
}

// JobUIConfig is the draft of a model.JobUIConfig.
type JobUIConfig struct {
	Description string       `hcl:"description"`
	Links       []*JobUILink `hcl:"link,block"`
}

// JobUILink is the draft of a model.JobUILink.
type JobUILink struct {
	Label string `hcl:"label"`
	URL   string `hcl:"url"`
}
