// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/drover-project/drover/plugins/internal/netrecords"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// record says what an alloc has, or is about to have.
type record struct {
	AllocID   string
	Network   string
	Namespace string            `json:",omitempty"` // of the job
	JobID     string            `json:",omitempty"`
	TaskGroup string            `json:",omitempty"`
	Path      string            `json:",omitempty"` // of a namespace that a driver made
	Hostname  string            `json:",omitempty"`
	Ports     []network.Port    `json:",omitempty"`
	DNS       *network.DNS      `json:",omitempty"`
	Args      map[string]string `json:",omitempty"`

	// Conf is the configuration with which the network was made, and is removed.
	Conf json.RawMessage `json:",omitempty"`
	// Result is the answer of the programs; nil until they have succeeded.
	Result json.RawMessage `json:",omitempty"`
	// MapsPorts reports whether a program of the network maps ports of the machine.
	MapsPorts bool `json:",omitempty"`
	// Unchecked says that the programs cannot tell whether the network works: their CHECK
	// failed when it was made, or their version has none.
	Unchecked bool `json:",omitempty"`
	// Wanted are the addresses that the alloc had before its network was made again.
	Wanted []string `json:",omitempty"`
}

// asked is the part of a record that the host has asked for.
func (r *record) asked() record {
	out := *r
	out.Conf, out.Result, out.MapsPorts, out.Unchecked, out.Wanted = nil, nil, false, false, nil
	return out
}

// insideName is the name of the interface in the namespace.
const insideName = "eth0"

// portMapping is an element of the capability portMappings of CNI's conventions.
type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// runtime is what the programs are told of an alloc. path is "" if its namespace is gone.
func (r *record) runtime(path string) *libcni.RuntimeConf {
	rt := &libcni.RuntimeConf{ContainerID: r.AllocID, NetNS: path, IfName: insideName, CapabilityArgs: map[string]any{}}
	rt.Args = [][2]string{{"IgnoreUnknown", "true"}}
	for _, pair := range [][2]string{{"NOMAD_NAMESPACE", r.Namespace}, {"NOMAD_JOB_ID", r.JobID}, {"NOMAD_GROUP_NAME", r.TaskGroup}, {"NOMAD_ALLOC_ID", r.AllocID}} {
		if pair[1] != "" && checkArg(pair[0], pair[1]) == nil { // a job's id may have characters that CNI_ARGS cannot carry
			rt.Args = append(rt.Args, pair)
		}
	}
	for k, v := range r.Args {
		rt.Args = append(rt.Args, [2]string{k, v})
	}
	var ports []portMapping
	for _, p := range r.Ports {
		for _, protocol := range []string{"tcp", "udp"} {
			ports = append(ports, portMapping{HostPort: p.HostPort, ContainerPort: p.Port, Protocol: protocol, HostIP: p.HostIP})
		}
	}
	if len(ports) > 0 {
		rt.CapabilityArgs["portMappings"] = ports
	}
	if r.DNS != nil {
		rt.CapabilityArgs["dns"] = map[string][]string{"servers": r.DNS.Servers, "searches": r.DNS.Searches, "options": r.DNS.Options}
	}
	if len(r.Wanted) > 0 {
		rt.CapabilityArgs["ips"] = r.Wanted
	}
	return rt
}

// mapsPorts reports whether a program of a network accepts port maps.
func mapsPorts(list *libcni.NetworkConfigList) bool {
	for _, p := range list.Plugins {
		if p.Network.Capabilities["portMappings"] {
			return true
		}
	}
	return false
}

// checkRequest refuses what no machine can do.
func checkRequest(r network.Request) error {
	if err := netrecords.CheckID(r.AllocID); err != nil {
		return err
	}
	for k, v := range r.Args {
		if err := checkArg(k, v); err != nil {
			return err
		}
	}
	return netrecords.CheckPorts(r.Ports)
}

// checkArg refuses what CNI_ARGS cannot carry: it is KEY=VALUE;KEY=VALUE.
func checkArg(key, value string) error {
	if key == "" || strings.ContainsAny(key, "=;\x00\n") || strings.ContainsAny(value, ";\x00\n") {
		return errdefs.InvalidArgumentf("cni { args }: %q = %q cannot be passed to CNI programs, which get KEY=VALUE separated by semicolons", key, value)
	}
	return nil
}

// current converts a result of the CNI programs to the newest version of the format.
func current(r types.Result) (json.RawMessage, error) {
	if r == nil {
		return nil, errdefs.FailedPreconditionf("the programs have answered nothing")
	}
	converted, err := types100.NewResultFromResult(r)
	if err != nil {
		return nil, errdefs.FailedPreconditionf("%w", err)
	}
	body, err := json.Marshal(converted)
	if err != nil {
		return nil, errdefs.Internalf("encode it: %w", err)
	}
	return body, nil
}

// attachment is the record as the host sees it. namespace is the path of the namespace that
// the plugin makes.
func (r *record) attachment(namespace string) (*network.Attachment, error) {
	var result types100.Result
	if err := json.Unmarshal(r.Result, &result); err != nil {
		return nil, errdefs.FailedPreconditionf("the answer of network %s for alloc %s cannot be read: %w", r.Network, r.AllocID, err)
	}
	a := &network.Attachment{Path: r.Path, Interface: insideName, DNS: r.DNS}
	if a.Path == "" {
		a.Path = namespace
	}
	if r.MapsPorts {
		a.Ports = r.Ports
	}
	for _, ip := range result.IPs {
		addr, ok := netip.AddrFromSlice(ip.Address.IP)
		ones, _ := ip.Address.Mask.Size()
		if !ok || !ofSandbox(&result, ip) {
			continue
		}
		one := network.Address{Prefix: netip.PrefixFrom(addr.Unmap(), ones).String()}
		if gateway, ok := netip.AddrFromSlice(ip.Gateway); ok {
			one.Gateway = gateway.Unmap().String()
		}
		a.Addresses = append(a.Addresses, one)
	}
	four := func(x network.Address) bool { return !strings.Contains(x.Prefix, ":") }
	slices.SortStableFunc(a.Addresses, func(x, y network.Address) int {
		switch {
		case four(x) == four(y):
			return 0
		case four(x):
			return -1
		default:
			return 1
		}
	})
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			a.Interface = i.Name
			break
		}
	}
	if d := result.DNS; a.DNS == nil && (len(d.Nameservers) > 0 || len(d.Search) > 0 || len(d.Options) > 0) {
		a.DNS = &network.DNS{Servers: d.Nameservers, Searches: d.Search, Options: d.Options}
	}
	return a, nil
}

// claims reports whether the programs say that there is an interface in the namespace. Those
// of a network may do something else, such as setting rules of a firewall.
func (r *record) claims() bool {
	var result types100.Result
	if err := json.Unmarshal(r.Result, &result); err != nil {
		return false
	}
	return len(result.IPs) > 0 || slices.ContainsFunc(result.Interfaces, func(i *types100.Interface) bool { return i.Sandbox != "" })
}

// ofSandbox reports whether an address belongs to an interface in the namespace. Old programs
// do not name the interface; then it does.
func ofSandbox(result *types100.Result, ip *types100.IPConfig) bool {
	if ip.Interface == nil || *ip.Interface < 0 || *ip.Interface >= len(result.Interfaces) {
		return true
	}
	return result.Interfaces[*ip.Interface].Sandbox != ""
}
