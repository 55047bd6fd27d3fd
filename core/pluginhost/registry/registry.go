// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package registry is the core's interface to plugins that register services elsewhere. It
// owns that interface and the adapter for the contract (v1.go). It does not own processes
// (core/pluginhost does), nor which services are registered (core/agent/registrar does).
package registry

import (
	v1 "github.com/drover-project/drover/sdk/registry/v1"
)

// Backend is a registry in one process. Its methods have the semantics of sdk/registry/v1.
type Backend = v1.Registry

// Querier is a Backend that answers queries; Has says whether it does.
type Querier = v1.Querier

// Authenticator is a Backend at which workloads log in; HasLogins says whether it is one.
type Authenticator = v1.Authenticator

// The types of the newest contract.
type (
	Credential   = v1.Credential
	Login        = v1.Login
	LoginFor     = v1.LoginFor
	LoginRequest = v1.LoginRequest
	Info         = v1.Info
	Fingerprint  = v1.Fingerprint
	Cluster      = v1.Cluster
	SyncRequest  = v1.SyncRequest
	SyncResult   = v1.SyncResult
	Refusal      = v1.Refusal
	Registration = v1.Registration
	Endpoint     = v1.Endpoint
	Weights      = v1.Weights
	Check        = v1.Check
	HTTP         = v1.HTTP
	GRPC         = v1.GRPC
	Report       = v1.Report
	Status       = v1.Status
	Query        = v1.Query
	Answer       = v1.Answer
	Instance     = v1.Instance
)

// The values of these types: see sdk/registry/v1.
const (
	DefaultCluster = v1.DefaultCluster

	CheckHTTP   = v1.CheckHTTP
	CheckTCP    = v1.CheckTCP
	CheckGRPC   = v1.CheckGRPC
	CheckReport = v1.CheckReport

	StatusPassing  = v1.StatusPassing
	StatusWarning  = v1.StatusWarning
	StatusCritical = v1.StatusCritical

	ForService  = v1.ForService
	ForTask     = v1.ForTask
	ReasonLogin = v1.ReasonLogin

	QueryKey      = v1.QueryKey
	QueryKeys     = v1.QueryKeys
	QueryService  = v1.QueryService
	QueryServices = v1.QueryServices
)

// HasQueries reports whether a registry answers queries.
func HasQueries(b Backend) bool { return v1.Has(b, v1.FeatureQuery) }

// HasLogins reports whether workloads log in at a registry.
func HasLogins(b Backend) bool { return v1.Has(b, v1.FeatureLogin) }

// KnownFeatures returns the optional abilities of registries on which the host acts.
func KnownFeatures() []v1.Feature { return v1.KnownFeatures() }
