// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"maps"
	"slices"
	"time"
)

// Values of OnUpdate: how the checks of a service decide about the health of its alloc in a
// deployment.
const (
	OnUpdateRequireHealthy = "require_healthy" // they must be successes
	OnUpdateIgnoreWarn     = "ignore_warnings" // or warnings
	OnUpdateIgnore         = "ignore"          // nothing
)

// Service registers a task or group under a name.
type Service struct {
	Name              string
	TaskName          string
	Namespace         string
	PortLabel         string
	AddressMode       string
	Address           string
	EnableTagOverride bool
	Tags              []string
	CanaryTags        []string
	Checks            []*ServiceCheck
	Connect           *ConsulConnect
	Meta              map[string]string
	CanaryMeta        map[string]string
	TaggedAddresses   map[string]string
	OnUpdate          string
	Provider          string
	Cluster           string
	Identity          *WorkloadIdentity
	Kind              string
	Weights           *ServiceWeights
}

// ServiceRegistration is one instance of a service. It is derived from the alloc that
// offers it. Its indexes belong to the derivation: they begin anew with the index of the
// alloc on a server that restored a snapshot.
type ServiceRegistration struct {
	ID          string
	ServiceName string
	Namespace   string
	NodeID      string
	Datacenter  string
	JobID       string
	AllocID     string
	Tags        []string
	Address     string
	Port        int
	CreateIndex uint64
	ModifyIndex uint64
	// Failing means that a check of the service fails, or has not passed yet. The API of the
	// reference has no field for it.
	Failing bool `json:"-"`
	// Weight and Meta are those of the service, 0 and nil if it has none: for answers of DNS
	// and for templates. The API of the reference has no fields for them either.
	Weight int               `json:"-"`
	Meta   map[string]string `json:"-"`
}

// SameAs reports whether two registrations differ in their indexes only.
func (r *ServiceRegistration) SameAs(o *ServiceRegistration) bool {
	return r.ID == o.ID && r.ServiceName == o.ServiceName && r.Namespace == o.Namespace && r.NodeID == o.NodeID && r.Datacenter == o.Datacenter &&
		r.JobID == o.JobID && r.AllocID == o.AllocID && slices.Equal(r.Tags, o.Tags) && r.Address == o.Address && r.Port == o.Port && r.Failing == o.Failing &&
		r.Weight == o.Weight && maps.Equal(r.Meta, o.Meta)
}

// ServiceWeights weighs a service in DNS answers by its health.
type ServiceWeights struct {
	Passing int
	Warning int
}

// ServiceCheck is a health check of a service.
type ServiceCheck struct {
	Name                   string
	Type                   string
	Command                string
	Args                   []string
	Path                   string
	Protocol               string
	PortLabel              string
	Expose                 bool
	AddressMode            string
	Interval               time.Duration
	Timeout                time.Duration
	InitialStatus          string
	Notes                  string
	TLSServerName          string
	TLSSkipVerify          bool
	Method                 string
	Header                 map[string][]string
	CheckRestart           *CheckRestart
	GRPCService            string
	GRPCUseTLS             bool
	TaskName               string
	SuccessBeforePassing   int
	FailuresBeforeCritical int
	FailuresBeforeWarning  int
	Body                   string
	OnUpdate               string
	Advertise              string `json:",omitempty"` // warned of: see JobFields
}

// CheckRestart restarts a task whose check stays unhealthy.
type CheckRestart struct {
	Limit          int
	Grace          time.Duration
	IgnoreWarnings bool
}
