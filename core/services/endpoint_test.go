// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

func bridged() *model.Allocation {
	return &model.Allocation{
		ID: "a1", NetworkStatus: &model.AllocNetworkStatus{Address: "172.26.64.5", AddressIPv6: "fd00::5"},
		AllocatedResources: &model.AllocatedResources{
			Shared: model.AllocatedSharedResources{Ports: []model.AllocatedPortMapping{
				{Label: "http", Value: 20000, To: 8080, HostIP: "10.0.0.1"}, {Label: "same", Value: 20001, To: -1, HostIP: "10.0.0.1"},
			}},
			Tasks: map[string]*model.AllocatedTaskResources{"old": {Networks: []*model.NetworkResource{{IP: "10.0.0.1", DynamicPorts: []model.Port{{Label: "db", Value: 20002}}}}}},
		},
	}
}

func TestTheAddressOfAServiceFollowsItsAddressMode(t *testing.T) {
	docker := &model.DriverNetwork{IP: "172.17.0.2", PortMap: map[string]int{"http": 80}}
	weave := &model.DriverNetwork{IP: "10.32.0.2", AutoAdvertise: true}
	bare := &model.Allocation{ID: "a2"}
	for name, c := range map[string]struct {
		alloc   *model.Allocation
		driver  *model.DriverNetwork
		service model.Service
		want    services.Endpoint
		err     string
	}{
		"auto":                     {bridged(), docker, model.Service{PortLabel: "http"}, services.Endpoint{Address: "10.0.0.1", Port: 20000}, ""},
		"auto, driver advertises":  {bridged(), weave, model.Service{PortLabel: "http"}, services.Endpoint{Address: "10.32.0.2", Port: 8080}, ""},
		"host":                     {bridged(), weave, model.Service{PortLabel: "http", AddressMode: "host"}, services.Endpoint{Address: "10.0.0.1", Port: 20000}, ""},
		"host, port of a task":     {bridged(), nil, model.Service{PortLabel: "db", AddressMode: "host"}, services.Endpoint{Address: "10.0.0.1", Port: 20002}, ""},
		"host, number":             {bridged(), nil, model.Service{PortLabel: "9090", AddressMode: "host"}, services.Endpoint{Address: "10.0.0.1", Port: 9090}, ""},
		"host, no port":            {bare, nil, model.Service{}, services.Endpoint{Address: "192.0.2.1"}, ""},
		"host, no networks":        {bare, nil, model.Service{PortLabel: "9090"}, services.Endpoint{Address: "192.0.2.1", Port: 9090}, ""},
		"host, unknown port":       {bridged(), nil, model.Service{PortLabel: "none"}, services.Endpoint{}, `the alloc has no port "none"`},
		"number too large":         {bridged(), nil, model.Service{PortLabel: "65536"}, services.Endpoint{}, `the alloc has no port "65536"`},
		"driver, mapped":           {bridged(), docker, model.Service{PortLabel: "http", AddressMode: "driver"}, services.Endpoint{Address: "172.17.0.2", Port: 80}, ""},
		"driver, number":           {bridged(), docker, model.Service{PortLabel: "6379", AddressMode: "driver"}, services.Endpoint{Address: "172.17.0.2", Port: 6379}, ""},
		"driver, none":             {bridged(), nil, model.Service{PortLabel: "http", AddressMode: "driver"}, services.Endpoint{}, "the driver gave the task no address"},
		"alloc":                    {bridged(), nil, model.Service{PortLabel: "http", AddressMode: "alloc"}, services.Endpoint{Address: "172.26.64.5", Port: 8080}, ""},
		"alloc, same port":         {bridged(), nil, model.Service{PortLabel: "same", AddressMode: "alloc"}, services.Endpoint{Address: "172.26.64.5", Port: 20001}, ""},
		"alloc, number":            {bridged(), nil, model.Service{PortLabel: "53", AddressMode: "alloc"}, services.Endpoint{Address: "172.26.64.5", Port: 53}, ""},
		"alloc, no network":        {bare, nil, model.Service{PortLabel: "53", AddressMode: "alloc"}, services.Endpoint{}, "needs a network with mode"},
		"alloc_ipv6":               {bridged(), nil, model.Service{PortLabel: "http", AddressMode: "alloc_ipv6"}, services.Endpoint{Address: "fd00::5", Port: 8080}, ""},
		"address":                  {bridged(), nil, model.Service{PortLabel: "http", Address: "web.example"}, services.Endpoint{Address: "web.example", Port: 20000}, ""},
		"name without a value":     {bridged(), nil, model.Service{Name: "web-${none}", PortLabel: "http"}, services.Endpoint{}, `service "web-${none}": neither the job nor the node defines`},
		"address, port of no kind": {bridged(), nil, model.Service{PortLabel: "x", Address: "web.example"}, services.Endpoint{}, `no port "x"`},
	} {
		p := services.Place{Alloc: c.alloc, Task: "old", Driver: c.driver, NodeAddress: "192.0.2.1"}
		got, err := p.EndpointOf(&c.service)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.err)
		}
	}
}

func TestACheckGoesToTheNodesAddressUnlessItSaysOtherwise(t *testing.T) {
	service := &model.Service{Name: "web", PortLabel: "http", AddressMode: "alloc"}
	for name, c := range map[string]struct {
		alloc   *model.Allocation
		service *model.Service
		check   model.ServiceCheck
		want    services.Endpoint
		err     string
	}{
		"inherits the port":   {bridged(), service, model.ServiceCheck{}, services.Endpoint{Address: "10.0.0.1", Port: 20000}, ""},
		"own port":            {bridged(), service, model.ServiceCheck{PortLabel: "same"}, services.Endpoint{Address: "10.0.0.1", Port: 20001}, ""},
		"own mode":            {bridged(), service, model.ServiceCheck{AddressMode: "alloc"}, services.Endpoint{Address: "172.26.64.5", Port: 8080}, ""},
		"own mode and number": {bridged(), service, model.ServiceCheck{AddressMode: "alloc", PortLabel: "99"}, services.Endpoint{Address: "172.26.64.5", Port: 99}, ""},
		"no port":             {bridged(), &model.Service{Name: "web"}, model.ServiceCheck{}, services.Endpoint{}, "has no port"},
		"unknown port":        {bridged(), service, model.ServiceCheck{PortLabel: "none"}, services.Endpoint{}, `no port "none"`},
		"no address":          {&model.Allocation{}, &model.Service{Name: "web", PortLabel: "80"}, model.ServiceCheck{}, services.Endpoint{}, "has no address"},
	} {
		got, err := services.Place{Alloc: c.alloc}.EndpointOfCheck(c.service, &c.check)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.err)
		}
	}
}
