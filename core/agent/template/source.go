// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"context"
	"time"
)

// Kind says what a query asks for.
type Kind string

// Kinds of queries.
const (
	KindVariable  Kind = "nomad.var.block"
	KindVariables Kind = "nomad.var.list"
	KindService   Kind = "nomad.service"
	KindServices  Kind = "nomad.services"
)

// Query names data that a template reads. It is comparable: equal queries on a node
// share one watch.
type Query struct {
	Kind Kind
	Name string // path of a variable, prefix of a list, name of a service

	Namespace string // "" means the workload's namespace
	Region    string // "" means the node's region

	// Cluster, Partition, Datacenter, Tag and Unhealthy are for kinds of registries: see
	// sdk/registry/v1.
	Cluster, Partition, Datacenter, Tag string
	Unhealthy                           bool
	// As is the login with whose rights a registry is asked; "" means with the node's rights.
	As string

	// Scope identifies the workload on whose behalf the data is read, as set in Task.
	// A Source decides by it what may be read; answers are not shared between scopes.
	Scope string
}

// String names the query as the API shows it.
func (q Query) String() string {
	if q.Kind.OfRegistry() {
		return string(q.Kind) + "(" + q.Name + ")"
	}
	at := q.Namespace
	if q.Region != "" {
		at += "." + q.Region
	}
	name := q.Name
	if at != "" {
		name += "@" + at
	}
	return string(q.Kind) + "(" + name + ")"
}

// FetchOptions control how long Fetch may wait and how old the answer may be.
type FetchOptions struct {
	// Since is the index of the caller's answer; 0 if it has none. If it is not 0, Fetch
	// returns once there is a newer answer or Wait has passed.
	Since    uint64
	Wait     time.Duration
	MaxStale time.Duration // 0 asks for the newest
}

// Answer is a Source's answer to a query. It must not be changed after it was
// returned.
type Answer struct {
	Index uint64 // changes when the rest does; at least 1

	Found     bool // whether the variable or key exists; unused for lists and services
	Variable  Variable
	Variables []VariableMeta
	Service   []Service
	Services  []ServiceSummary

	// Keys and Instances are of registries.
	Keys      []KeyPair
	Instances []HealthService
}

// Source provides data that changes.
type Source interface {
	// Fetch answers q. It ends when ctx does. Errors are retried, with backoff.
	Fetch(ctx context.Context, q Query, opts FetchOptions) (Answer, error)
}

// VariableMeta is the metadata of a variable, without its items.
type VariableMeta struct {
	Namespace, Path          string
	CreateIndex, ModifyIndex uint64
	CreateTime, ModifyTime   time.Time
}

// String is the path.
func (m VariableMeta) String() string { return m.Path }

// Variable is a variable with its items.
type Variable struct {
	Meta  VariableMeta
	Items map[string]string
}

// VariableItem is one item of a variable; it prints as its value.
type VariableItem struct {
	Key, Value string
	Parent     VariableMeta
}

// String is the value.
func (i VariableItem) String() string { return i.Value }

// MarshalText is the value, so that toJSON and toYAML show it.
func (i VariableItem) MarshalText() ([]byte, error) { return []byte(i.Value), nil }

// VariableItems is the result of nomadVar: items by name.
type VariableItems map[string]VariableItem

// Service is one instance of a service.
type Service struct {
	ID, Name, Namespace, Datacenter string
	NodeID, JobID, AllocID          string
	Address                         string
	Port                            int
	Tags                            Tags
	Meta                            map[string]string
	CreateIndex, ModifyIndex        uint64
}

// ServiceSummary is a service without its instances.
type ServiceSummary struct {
	Name string
	Tags Tags
}

// Tags are the tags of a service.
type Tags []string
