// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package services_test

import (
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/services"
)

func TestTheConsulBlockIsAboutServicesOfConsulOnly(t *testing.T) {
	in := running()
	g := in.Job.TaskGroups[0]
	g.Consul = &model.Consul{Cluster: "west", Namespace: "team"}
	for provider, want := range map[string][2]string{"consul": {"west", "team"}, "etcd": {"default", ""}} {
		g.Services = []*model.Service{{Name: "web", PortLabel: "http", Provider: provider}}
		offers, missing := services.Offers(in)
		if len(missing) > 0 || len(offers) != 1 {
			t.Fatalf("%s: offers %+v, missing %+v", provider, offers, missing)
		}
		if o := offers[0]; o.Provider != provider || o.Cluster != want[0] || o.Namespace != want[1] {
			t.Errorf("a service of %s is offered to cluster %q, namespace %q of %s; want %q", provider, o.Cluster, o.Namespace, o.Provider, want)
		}
	}
}
