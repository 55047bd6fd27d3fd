// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package network

import (
	"context"

	"github.com/drover-project/drover/sdk/schema"
)

// Network makes networks for allocs. All methods may be called concurrently, also for the
// same alloc; calls for one alloc take effect one after the other. They return soon after
// their ctx ends, and Destroy can then remove what they began.
type Network interface {
	// Info returns the plugin's name and the schema of its configuration. It does no
	// work and always returns the same value.
	Info() Info

	// SetConfig passes the contents of the agent's plugin "NAME" { config { } } block:
	// a JSON object that was validated against Info().ConfigSchema, with defaults
	// filled in. It is called once before the first Fingerprint and again whenever the
	// block changes. Networks that exist stay as they are. InvalidArgument: the plugin
	// cannot work with this configuration.
	SetConfig(ctx context.Context, config []byte) error

	// Fingerprint reports all networks at once when it is called, and again all networks
	// whenever something changes. The plugin closes the channel when ctx ends.
	Fingerprint(ctx context.Context) (<-chan Fingerprint, error)

	// Create makes the network of an alloc. The network works when Create returns. If the
	// alloc has a network already, Create repairs what does not work and changes what
	// differs from the request. NotFound: there is no network of that name.
	// InvalidArgument: the request cannot be satisfied on any machine. ResourceExhausted:
	// there is no free address. FailedPrecondition: the machine lacks something, or
	// something on it is in the way.
	Create(ctx context.Context, r Request) (*Attachment, error)

	// Inspect returns the network of an alloc and changes nothing. NotFound: the alloc
	// has none. FailedPrecondition: it does not work; Create would repair it.
	Inspect(ctx context.Context, allocID string) (*Attachment, error)

	// Destroy removes everything that Create made for the alloc, including the unfinished
	// work of a killed process. If there is nothing, it returns nil. A namespace that a
	// driver made stays.
	Destroy(ctx context.Context, allocID string) error

	// List returns the ids of all allocs of which anything is left, sorted.
	List(ctx context.Context) ([]string, error)
}

// Info describes a network plugin.
type Info struct {
	// Name is the plugin's name in the agent's configuration, such as "cni".
	Name         string
	ConfigSchema schema.Schema
	// Features are what the plugin announces. Service fills it in.
	Features []Feature
}

// Fingerprint is what a plugin offers on this machine.
type Fingerprint struct {
	// Networks are the names of the networks that allocs can have, in order.
	Networks []string
	// Attributes become attributes of the node, such as versions. Names of attributes
	// that the agent sets itself are ignored.
	Attributes map[string]string
	// Problem says why networks are missing, for a person.
	Problem string
}

// Request asks for the network of an alloc.
type Request struct {
	AllocID   string
	Network   string // a name of Fingerprint.Networks
	Namespace string // namespace of the job
	JobID     string
	TaskGroup string
	// Hostname is the host name of the alloc; "" if the job names none.
	Hostname string
	Ports    []Port
	// DNS is the resolver that the job asks for; nil if it names none.
	DNS *DNS
	// Args are what the job passes to the network.
	Args map[string]string
	// Path is the path of a network namespace that a driver has made for the alloc. If it
	// is empty, the plugin makes the namespace.
	Path string
}

// Port forwards a port of the machine to a port of the alloc, for TCP and UDP.
type Port struct {
	Label string
	// HostIP is the address of the machine; "" means all of them, including the loopback
	// address.
	HostIP   string
	HostPort int
	Port     int // in the alloc
}

// DNS is the configuration of a resolver.
type DNS struct {
	Servers  []string
	Searches []string
	Options  []string
}

// Attachment is the network of an alloc.
type Attachment struct {
	// Path is the path of the network namespace.
	Path string
	// Interface is the name of the interface in the namespace.
	Interface string
	// Addresses are the addresses of the interface, IPv4 first.
	Addresses []Address
	// DNS is the resolver that belongs to the network; nil if it names none.
	DNS *DNS
	// Ports are those that lead to the alloc.
	Ports []Port
}

// Address is an address of an interface.
type Address struct {
	Prefix  string // IP address with the length of its prefix, such as "172.26.64.5/20"
	Gateway string // IP address; "" if there is none
}
