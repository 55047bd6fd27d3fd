// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import "time"

// ConsulConnect joins a service to a Consul service mesh.
type ConsulConnect struct {
	Native         bool
	Gateway        *ConsulGateway
	SidecarService *ConsulSidecarService
	SidecarTask    *SidecarTask
}

// ConsulGateway is part of a ConsulConnect block; its fields are named as in job files.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy
	Ingress     *ConsulIngressConfigEntry
	Terminating *ConsulTerminatingConfigEntry
	Mesh        *ConsulMeshConfigEntry
}

// ConsulGatewayProxy is part of a ConsulConnect block; its fields are named as in job files.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *time.Duration
	EnvoyGatewayBindTaggedAddresses bool
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress
	EnvoyGatewayNoDefaultBind       bool
	EnvoyDNSDiscoveryType           string
	Config                          map[string]any
}

// ConsulGatewayBindAddress is part of a ConsulConnect block; its fields are named as in job files.
type ConsulGatewayBindAddress struct {
	Name    string
	Address string
	Port    int
}

// ConsulIngressConfigEntry is part of a ConsulConnect block; its fields are named as in job files.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig
	Listeners []*ConsulIngressListener
}

// ConsulGatewayTLSConfig is part of a ConsulConnect block; its fields are named as in job files.
type ConsulGatewayTLSConfig struct {
	Enabled       bool
	TLSMinVersion string
	TLSMaxVersion string
	CipherSuites  []string
	SDS           *ConsulGatewayTLSSDSConfig
}

// ConsulGatewayTLSSDSConfig is part of a ConsulConnect block; its fields are named as in job files.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string
	CertResource string
}

// ConsulIngressListener is part of a ConsulConnect block; its fields are named as in job files.
type ConsulIngressListener struct {
	Port     int
	Protocol string
	Services []*ConsulIngressService
}

// ConsulIngressService is part of a ConsulConnect block; its fields are named as in job files.
type ConsulIngressService struct {
	Name                  string
	Hosts                 []string
	TLS                   *ConsulGatewayTLSConfig
	RequestHeaders        *ConsulHTTPHeaderModifiers
	ResponseHeaders       *ConsulHTTPHeaderModifiers
	MaxConnections        *uint32
	MaxPendingRequests    *uint32
	MaxConcurrentRequests *uint32
}

// ConsulHTTPHeaderModifiers is part of a ConsulConnect block; its fields are named as in job files.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string
	Set    map[string]string
	Remove []string
}

// ConsulTerminatingConfigEntry is part of a ConsulConnect block; its fields are named as in job files.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService
}

// ConsulLinkedService is part of a ConsulConnect block; its fields are named as in job files.
type ConsulLinkedService struct {
	Name     string
	CAFile   string
	CertFile string
	KeyFile  string
	SNI      string
}

// ConsulMeshConfigEntry is part of a ConsulConnect block; its fields are named as in job files.
type ConsulMeshConfigEntry struct {
}

// ConsulSidecarService is part of a ConsulConnect block; its fields are named as in job files.
type ConsulSidecarService struct {
	Tags                   []string
	Port                   string
	Proxy                  *ConsulProxy
	DisableDefaultTCPCheck bool
	Meta                   map[string]string
}

// ConsulProxy is part of a ConsulConnect block; its fields are named as in job files.
type ConsulProxy struct {
	LocalServiceAddress string
	LocalServicePort    int
	Expose              *ConsulExposeConfig
	Upstreams           []*ConsulUpstream
	TransparentProxy    *ConsulTransparentProxy
	Config              map[string]any
}

// ConsulExposeConfig is part of a ConsulConnect block; its fields are named as in job files.
type ConsulExposeConfig struct {
	Paths []*ConsulExposePath
}

// ConsulExposePath is part of a ConsulConnect block; its fields are named as in job files.
type ConsulExposePath struct {
	Path          string
	Protocol      string
	LocalPathPort int
	ListenerPort  string
}

// ConsulUpstream is part of a ConsulConnect block; its fields are named as in job files.
type ConsulUpstream struct {
	DestinationName      string
	DestinationNamespace string
	DestinationPeer      string
	DestinationPartition string
	DestinationType      string
	LocalBindPort        int
	Datacenter           string
	LocalBindAddress     string
	LocalBindSocketPath  string
	LocalBindSocketMode  string
	MeshGateway          *ConsulMeshGateway
	Config               map[string]any
}

// ConsulMeshGateway is part of a ConsulConnect block; its fields are named as in job files.
type ConsulMeshGateway struct {
	Mode string
}

// ConsulTransparentProxy is part of a ConsulConnect block; its fields are named as in job files.
type ConsulTransparentProxy struct {
	UID                  string
	OutboundPort         uint16
	ExcludeInboundPorts  []string
	ExcludeOutboundPorts []uint16
	ExcludeOutboundCIDRs []string
	ExcludeUIDs          []string
	NoDNS                bool
}

// SidecarTask overrides the task that runs the mesh proxy.
type SidecarTask struct {
	Name          string
	Driver        string
	User          string
	Config        map[string]any
	Env           map[string]string
	Resources     *Resources
	Meta          map[string]string
	KillTimeout   *time.Duration
	LogConfig     *LogConfig
	ShutdownDelay *time.Duration
	KillSignal    string
	VolumeMounts  []*VolumeMount
	Identities    []*WorkloadIdentity
}
