// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package registry

import (
	"context"
	"time"

	"github.com/drover-project/drover/sdk/schema"
)

// DefaultCluster is the name of the cluster of services that name none.
const DefaultCluster = "default"

// Registry registers services in clusters. All methods may be called concurrently; calls of
// Sync for one owner and cluster are not. They return soon after their ctx ends.
type Registry interface {
	// Info returns the registry's name and the schema of its configuration. It does no
	// work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block: a
	// JSON object that was validated against Info().ConfigSchema, with defaults filled in.
	// It is called once before the first Fingerprint and again whenever the block changes.
	// InvalidArgument: the registry cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports all clusters at once when it is called, and again all clusters
	// whenever something changes. The registry closes the channel when ctx ends.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// Sync makes the cluster have exactly these services of the owner. A service that the
	// cluster refuses does not prevent the others: it is in the result. NotFound: there is
	// no cluster of that name. Unavailable: the cluster cannot be reached, and some services
	// may be registered. PermissionDenied: the cluster lets the registry do nothing.
	Sync(ctx context.Context, r SyncRequest) (*SyncResult, error)
}

// Querier is a Registry from which templates of tasks read.
type Querier interface {
	Registry
	// Query reads from a cluster. With Since it returns once there is an answer of another
	// index, or Wait has passed. A key that does not exist, and a service without instances,
	// are answers and no errors. NotFound: there is no cluster of that name.
	// InvalidArgument: there is no such kind of query. PermissionDenied, Unavailable: as for
	// Sync.
	Query(ctx context.Context, q Query) (*Answer, error)
}

// Authenticator is a Registry in which workloads act with rights of their own instead of the
// node's. The host keeps the credentials, and ends each with Logout.
type Authenticator interface {
	Registry
	// Login returns a credential for a workload, which the token proves to be what it is.
	// The credential works when Login returns. NotFound: there is no cluster of that name.
	// PermissionDenied: the cluster does not accept the token. Unavailable: as for Sync.
	Login(ctx context.Context, r LoginRequest) (*Login, error)
	// Logout ends a credential. One that is not known any more is no error.
	Logout(ctx context.Context, cluster string, c Credential) error
}

// LoginFor says which kind of workload logs in.
type LoginFor string

// The kinds of workloads.
const (
	ForService LoginFor = "service" // to register it
	ForTask    LoginFor = "task"    // for the task itself and its templates
)

// LoginRequest asks for a credential.
type LoginRequest struct {
	Cluster string
	For     LoginFor
	Token   string            // a signed JSON Web Token
	Meta    map[string]string // for people who look at the cluster's list of credentials
}

// Login is the result of a login.
type Login struct {
	Credential
	// TTL is how long the credential is valid; 0 means until Logout.
	TTL time.Duration
}

// Credential is what proves to a cluster who asks. ID names it and is no secret.
type Credential struct{ ID, Secret string }

// ReasonLogin is the reason (errdefs.ReasonOf) of errors of class PermissionDenied of
// requests whose credential the cluster does not know: another login may help.
const ReasonLogin = "login_unknown"

// Info describes a registry.
type Info struct {
	// Name is the provider that services of jobs name, such as "consul".
	Name         string
	ConfigSchema schema.Schema
	// Features are what the plugin announces. Service fills it in.
	Features []Feature
}

// Fingerprint is what a registry reaches from this machine.
type Fingerprint struct {
	Clusters []Cluster // in the order of their names
}

// Cluster is a cluster as the node reaches it.
type Cluster struct {
	Name string
	// Healthy says whether it can be reached now.
	Healthy bool
	// Attributes become attributes of the node, whether it is healthy or not. Their names
	// begin with NAME. or unique.NAME. of the registry. A healthy cluster has NAME.version,
	// or NAME.CLUSTER.version if it is not DefaultCluster: jobs are placed on nodes with that
	// attribute. Keep it while the cluster is away for a moment.
	Attributes map[string]string
	// Problem says why it is not healthy, for a person.
	Problem string
}

// SyncRequest has all services of a node in a cluster.
type SyncRequest struct {
	Owner    string // id of the node
	Cluster  string
	Services []Registration
	// Credentials are those with which services are registered, by their ids, also of services
	// that are registered no longer. Without one the registry uses its own.
	Credentials map[string]Credential
}

// Registration is an instance of a service that is to be registered.
type Registration struct {
	ID   string // no other instance has it
	Name string
	// Namespace and Partition are parts of the cluster; "" means the configured ones.
	Namespace, Partition string
	Address              string
	Port                 int // 0 if it has none
	Tags                 []string
	Meta                 map[string]string
	TaggedAddresses      map[string]Endpoint
	Weights              *Weights // nil: those of the registry
	Kind                 string
	// EnableTagOverride lets others change the tags: Sync keeps the tags of a registered
	// service.
	EnableTagOverride bool
	Checks            []Check
}

// Endpoint is an address with a port.
type Endpoint struct {
	Address string
	Port    int
}

// Weights weigh a service in answers of DNS by its health.
type Weights struct{ Passing, Warning int }

// CheckType says who runs a check, and how.
type CheckType string

// The types of checks.
const (
	CheckHTTP   CheckType = "http"
	CheckTCP    CheckType = "tcp"
	CheckGRPC   CheckType = "grpc"
	CheckReport CheckType = "report" // the node runs it
)

// Status is the health of a check.
type Status string

// The statuses.
const (
	StatusPassing  Status = "passing"
	StatusWarning  Status = "warning"
	StatusCritical Status = "critical"
)

// Check is a check of a service.
type Check struct {
	ID      string // no other check has it
	Name    string
	Type    CheckType
	Address string // with port; "" for a report
	// Interval and Timeout are 0 for a report.
	Interval, Timeout time.Duration
	// InitialStatus is the status before the first result; "" means critical.
	InitialStatus Status
	// SuccessBeforePassing, FailuresBeforeCritical and FailuresBeforeWarning count results in
	// a row; 0 means the registry's own.
	SuccessBeforePassing, FailuresBeforeCritical, FailuresBeforeWarning int
	Notes                                                               string
	HTTP                                                                *HTTP // for http
	GRPC                                                                *GRPC // for grpc
	TLSServerName                                                       string
	TLSSkipVerify                                                       bool
	Report                                                              *Report // for a report
}

// HTTP is what an http check sends.
type HTTP struct {
	Scheme string // http or https
	Path   string // with its query
	Method string // "" means GET
	Header map[string][]string
	Body   string
}

// GRPC is what a grpc check sends.
type GRPC struct {
	Service string // "" means the whole server
	TLS     bool
}

// Report is a result that the node found.
type Report struct {
	Status Status
	Output string
	TTL    time.Duration // how long it is valid without a newer one
}

// SyncResult says which services a cluster refuses.
type SyncResult struct{ Refusals []Refusal }

// Refusal is a service that a cluster refuses.
type Refusal struct {
	ID     string
	Reason string
	// Login says that the cluster does not know the service's credential.
	Login bool
}

// QueryKind says what a query asks for.
type QueryKind string

// The kinds of queries.
const (
	QueryKey      QueryKind = "key"      // one key
	QueryKeys     QueryKind = "keys"     // all keys with a prefix
	QueryService  QueryKind = "service"  // instances of a service
	QueryServices QueryKind = "services" // names of all services
)

// Query names what is read.
type Query struct {
	Cluster string
	Kind    QueryKind
	Name    string // key, prefix, or name of a service
	// Namespace, Partition and Datacenter are "" for the configured ones.
	Namespace, Partition, Datacenter string
	Tag                              string // that instances must have
	// Unhealthy returns instances whose checks fail, too.
	Unhealthy bool
	// Since is the index of the caller's answer; 0 if it has none.
	Since uint64
	Wait  time.Duration
	// MaxStale is how old the answer may be; 0 asks for the newest.
	MaxStale time.Duration
	// Credential is the credential of the task that asks; nil means the registry's own.
	Credential *Credential
}

// Answer is the answer to a Query.
type Answer struct {
	Index     uint64 // at least 1; changes when the rest does
	Found     bool   // whether the key exists
	Pairs     []Pair
	Instances []Instance
	Services  []Summary
}

// Pair is a key with its value.
type Pair struct {
	Key   string
	Value []byte
}

// Instance is an instance of a service that the registry knows, whoever registered it.
type Instance struct {
	ID, Name          string
	Address           string
	Port              int
	Tags              []string
	Meta              map[string]string
	Node, NodeAddress string
	Datacenter        string
	Status            Status
}

// Summary is a service without its instances.
type Summary struct {
	Name string
	Tags []string
}
