// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec

// Service is the draft of a model.Service.
type Service struct {
	Name              string            `hcl:"name"`
	Tags              []string          `hcl:"tags"`
	CanaryTags        []string          `hcl:"canary_tags"`
	EnableTagOverride bool              `hcl:"enable_tag_override"`
	PortLabel         string            `hcl:"port"`
	AddressMode       string            `hcl:"address_mode"`
	Address           string            `hcl:"address"`
	Checks            []ServiceCheck    `hcl:"check,block"`
	CheckRestart      *CheckRestart     `hcl:"check_restart,block"`
	Connect           *ConsulConnect    `hcl:"connect,block"`
	Meta              map[string]string `hcl:"meta,block"`
	CanaryMeta        map[string]string `hcl:"canary_meta,block"`
	TaggedAddresses   map[string]string `hcl:"tagged_addresses,block"`
	TaskName          string            `hcl:"task"`
	OnUpdate          string            `hcl:"on_update"`
	Identity          *WorkloadIdentity `hcl:"identity,block"`
	Weights           *ServiceWeights   `hcl:"weights,block"`
	Provider          string            `hcl:"provider"`
	Cluster           string            `hcl:"cluster"`
	Kind              string            `hcl:"kind"`
}

// ServiceCheck is the draft of a model.ServiceCheck.
type ServiceCheck struct {
	Name                   string              `hcl:"name"`
	Type                   string              `hcl:"type"`
	Command                string              `hcl:"command"`
	Args                   []string            `hcl:"args"`
	Path                   string              `hcl:"path"`
	Protocol               string              `hcl:"protocol"`
	PortLabel              string              `hcl:"port"`
	Expose                 bool                `hcl:"expose"`
	AddressMode            string              `hcl:"address_mode"`
	Advertise              string              `hcl:"advertise"`
	Interval               Duration            `hcl:"interval"`
	Timeout                Duration            `hcl:"timeout"`
	InitialStatus          string              `hcl:"initial_status"`
	Notes                  string              `hcl:"notes"`
	TLSServerName          string              `hcl:"tls_server_name"`
	TLSSkipVerify          bool                `hcl:"tls_skip_verify"`
	Header                 map[string][]string `hcl:"header,block"`
	Method                 string              `hcl:"method"`
	CheckRestart           *CheckRestart       `hcl:"check_restart,block"`
	GRPCService            string              `hcl:"grpc_service"`
	GRPCUseTLS             bool                `hcl:"grpc_use_tls"`
	TaskName               string              `hcl:"task"`
	SuccessBeforePassing   int                 `hcl:"success_before_passing"`
	FailuresBeforeCritical int                 `hcl:"failures_before_critical"`
	FailuresBeforeWarning  int                 `hcl:"failures_before_warning"`
	Body                   string              `hcl:"body"`
	OnUpdate               string              `hcl:"on_update"`
}

// CheckRestart is the draft of a model.CheckRestart.
type CheckRestart struct {
	Limit          int       `hcl:"limit"`
	Grace          *Duration `hcl:"grace"`
	IgnoreWarnings bool      `hcl:"ignore_warnings"`
}

// ConsulConnect is the draft of a model.ConsulConnect.
type ConsulConnect struct {
	Native         bool                  `hcl:"native"`
	Gateway        *ConsulGateway        `hcl:"gateway,block"`
	SidecarService *ConsulSidecarService `hcl:"sidecar_service,block"`
	SidecarTask    *SidecarTask          `hcl:"sidecar_task,block"`
}

// ConsulGateway is the draft of a model.ConsulGateway.
type ConsulGateway struct {
	Proxy       *ConsulGatewayProxy           `hcl:"proxy,block"`
	Ingress     *ConsulIngressConfigEntry     `hcl:"ingress,block"`
	Terminating *ConsulTerminatingConfigEntry `hcl:"terminating,block"`
	Mesh        *ConsulMeshConfigEntry        `hcl:"mesh,block"`
}

// ConsulGatewayProxy is the draft of a model.ConsulGatewayProxy.
type ConsulGatewayProxy struct {
	ConnectTimeout                  *Duration                            `hcl:"connect_timeout"`
	EnvoyGatewayBindTaggedAddresses bool                                 `hcl:"envoy_gateway_bind_tagged_addresses"`
	EnvoyGatewayBindAddresses       map[string]*ConsulGatewayBindAddress `hcl:"envoy_gateway_bind_addresses,block"`
	EnvoyGatewayNoDefaultBind       bool                                 `hcl:"envoy_gateway_no_default_bind"`
	EnvoyDNSDiscoveryType           string                               `hcl:"envoy_dns_discovery_type"`
	Config                          map[string]any                       `hcl:"config,block"`
}

// ConsulGatewayBindAddress is the draft of a model.ConsulGatewayBindAddress.
type ConsulGatewayBindAddress struct {
	Name    string `hcl:",label"`
	Address string `hcl:"address"`
	Port    int    `hcl:"port"`
}

// ConsulIngressConfigEntry is the draft of a model.ConsulIngressConfigEntry.
type ConsulIngressConfigEntry struct {
	TLS       *ConsulGatewayTLSConfig  `hcl:"tls,block"`
	Listeners []*ConsulIngressListener `hcl:"listener,block"`
}

// ConsulGatewayTLSConfig is the draft of a model.ConsulGatewayTLSConfig.
type ConsulGatewayTLSConfig struct {
	Enabled       bool                       `hcl:"enabled"`
	TLSMinVersion string                     `hcl:"tls_min_version"`
	TLSMaxVersion string                     `hcl:"tls_max_version"`
	CipherSuites  []string                   `hcl:"cipher_suites"`
	SDS           *ConsulGatewayTLSSDSConfig `hcl:"sds,block"`
}

// ConsulGatewayTLSSDSConfig is the draft of a model.ConsulGatewayTLSSDSConfig.
type ConsulGatewayTLSSDSConfig struct {
	ClusterName  string `hcl:"cluster_name"`
	CertResource string `hcl:"cert_resource"`
}

// ConsulIngressListener is the draft of a model.ConsulIngressListener.
type ConsulIngressListener struct {
	Port     int                     `hcl:"port"`
	Protocol string                  `hcl:"protocol"`
	Services []*ConsulIngressService `hcl:"service,block"`
}

// ConsulIngressService is the draft of a model.ConsulIngressService.
type ConsulIngressService struct {
	Name                  string                     `hcl:"name"`
	Hosts                 []string                   `hcl:"hosts"`
	TLS                   *ConsulGatewayTLSConfig    `hcl:"tls,block"`
	RequestHeaders        *ConsulHTTPHeaderModifiers `hcl:"request_headers,block"`
	ResponseHeaders       *ConsulHTTPHeaderModifiers `hcl:"response_headers,block"`
	MaxConnections        *uint32                    `hcl:"max_connections"`
	MaxPendingRequests    *uint32                    `hcl:"max_pending_requests"`
	MaxConcurrentRequests *uint32                    `hcl:"max_concurrent_requests"`
}

// ConsulHTTPHeaderModifiers is the draft of a model.ConsulHTTPHeaderModifiers.
type ConsulHTTPHeaderModifiers struct {
	Add    map[string]string `hcl:"add,block"`
	Set    map[string]string `hcl:"set,block"`
	Remove []string          `hcl:"remove"`
}

// ConsulTerminatingConfigEntry is the draft of a model.ConsulTerminatingConfigEntry.
type ConsulTerminatingConfigEntry struct {
	Services []*ConsulLinkedService `hcl:"service,block"`
}

// ConsulLinkedService is the draft of a model.ConsulLinkedService.
type ConsulLinkedService struct {
	Name     string `hcl:"name"`
	CAFile   string `hcl:"ca_file"`
	CertFile string `hcl:"cert_file"`
	KeyFile  string `hcl:"key_file"`
	SNI      string `hcl:"sni"`
}

// ConsulMeshConfigEntry is the draft of a model.ConsulMeshConfigEntry.
type ConsulMeshConfigEntry struct {
}

// ConsulSidecarService is the draft of a model.ConsulSidecarService.
type ConsulSidecarService struct {
	Tags                   []string          `hcl:"tags"`
	Port                   string            `hcl:"port"`
	Proxy                  *ConsulProxy      `hcl:"proxy,block"`
	DisableDefaultTCPCheck bool              `hcl:"disable_default_tcp_check"`
	Meta                   map[string]string `hcl:"meta,block"`
}

// ConsulProxy is the draft of a model.ConsulProxy.
type ConsulProxy struct {
	LocalServiceAddress string                  `hcl:"local_service_address"`
	LocalServicePort    int                     `hcl:"local_service_port"`
	Expose              *ConsulExposeConfig     `hcl:"expose,block"`
	ExposeConfig        *ConsulExposeConfig     `hcl:"-"` // the older name of Expose
	Upstreams           []*ConsulUpstream       `hcl:"upstreams,block"`
	TransparentProxy    *ConsulTransparentProxy `hcl:"transparent_proxy,block"`
	Config              map[string]any          `hcl:"config,block"`
}

// ConsulExposeConfig is the draft of a model.ConsulExposeConfig.
type ConsulExposeConfig struct {
	Paths []*ConsulExposePath `hcl:"path,block"`
}

// ConsulExposePath is the draft of a model.ConsulExposePath.
type ConsulExposePath struct {
	Path          string `hcl:"path"`
	Protocol      string `hcl:"protocol"`
	LocalPathPort int    `hcl:"local_path_port"`
	ListenerPort  string `hcl:"listener_port"`
}

// ConsulUpstream is the draft of a model.ConsulUpstream.
type ConsulUpstream struct {
	DestinationName      string             `hcl:"destination_name"`
	DestinationNamespace string             `hcl:"destination_namespace"`
	DestinationPeer      string             `hcl:"destination_peer"`
	DestinationPartition string             `hcl:"destination_partition"`
	DestinationType      string             `hcl:"destination_type"`
	LocalBindPort        int                `hcl:"local_bind_port"`
	Datacenter           string             `hcl:"datacenter"`
	LocalBindAddress     string             `hcl:"local_bind_address"`
	LocalBindSocketPath  string             `hcl:"local_bind_socket_path"`
	LocalBindSocketMode  string             `hcl:"local_bind_socket_mode"`
	MeshGateway          *ConsulMeshGateway `hcl:"mesh_gateway,block"`
	Config               map[string]any     `hcl:"config,block"`
}

// ConsulMeshGateway is the draft of a model.ConsulMeshGateway.
type ConsulMeshGateway struct {
	Mode string `hcl:"mode"`
}

// ConsulTransparentProxy is the draft of a model.ConsulTransparentProxy.
type ConsulTransparentProxy struct {
	UID                  string   `hcl:"uid"`
	OutboundPort         uint16   `hcl:"outbound_port"`
	ExcludeInboundPorts  []string `hcl:"exclude_inbound_ports"`
	ExcludeOutboundPorts []uint16 `hcl:"exclude_outbound_ports"`
	ExcludeOutboundCIDRs []string `hcl:"exclude_outbound_cidrs"`
	ExcludeUIDs          []string `hcl:"exclude_uids"`
	NoDNS                bool     `hcl:"no_dns"`
}

// SidecarTask is the draft of a model.SidecarTask.
type SidecarTask struct {
	Name          string              `hcl:"name"`
	Driver        string              `hcl:"driver"`
	User          string              `hcl:"user"`
	Config        map[string]any      `hcl:"config,block"`
	Env           map[string]string   `hcl:"env,block"`
	Resources     *Resources          `hcl:"resources,block"`
	Meta          map[string]string   `hcl:"meta,block"`
	KillTimeout   *Duration           `hcl:"kill_timeout"`
	LogConfig     *LogConfig          `hcl:"logs,block"`
	ShutdownDelay *Duration           `hcl:"shutdown_delay"`
	KillSignal    string              `hcl:"kill_signal"`
	VolumeMounts  []*VolumeMount      `hcl:"volume_mount,block"`
	Identities    []*WorkloadIdentity `hcl:"identity,block"`
}

// ServiceWeights is the draft of a model.ServiceWeights.
type ServiceWeights struct {
	Passing int `hcl:"passing"`
	Warning int `hcl:"warning"`
}
