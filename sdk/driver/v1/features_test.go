// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	driver "github.com/drover-project/drover/sdk/driver/v1"
	driverv1 "github.com/drover-project/drover/sdk/internal/pb/driver/v1"
	"github.com/drover-project/drover/sdk/plugin"
)

// plain has what the contract requires and nothing else.
type plain struct{ driver.Driver }

func (plain) Info() driver.Info { return driver.Info{Name: "plain"} }

func TestOptionalInterfacesAreAnnounced(t *testing.T) {
	drivers, _ := connect(t, &echo{info: driver.Info{Name: "echo"}}, plain{})
	lists, bare := drivers[0], drivers[1]
	if !driver.Has(lists, driver.FeatureListTasks) || !slices.Equal(lists.Info().Features, driver.Features(lists)) {
		t.Errorf("a driver that lists its tasks announces %q", driver.Features(lists))
	}
	if got := driver.Features(bare); len(got) != 0 {
		t.Errorf("a driver without optional interfaces announces %q", got)
	}
	if driver.Has(plain{}, driver.FeatureListTasks) || !driver.Has(&echo{}, driver.FeatureListTasks) {
		t.Error("the features of a driver in this process are not those of its Go type")
	}
}

func TestWhatAnAuthorPutsIntoFeaturesIsNotAnnounced(t *testing.T) {
	drivers, _ := connect(t, &echo{info: driver.Info{Name: "echo", Features: []driver.Feature{"teleport"}}})
	if driver.Has(drivers[0], "teleport") {
		t.Error("a feature without its interface was announced")
	}
}

// newer answers as a plugin of a newer contract, or a defective one, might.
type newer struct {
	driverv1.UnimplementedDriverServer
	features []string
}

func (n newer) Drivers(context.Context, *driverv1.DriversRequest) (*driverv1.DriversResponse, error) {
	return &driverv1.DriversResponse{Drivers: []*driverv1.Info{{Name: "newer", Features: n.features}}}, nil
}

func connectNewer(t *testing.T, features []string) driver.Driver {
	t.Helper()
	drivers, err := driver.Connect(t.Context(), serve(t, plugin.Service{Kind: driver.Kind, Register: func(r grpc.ServiceRegistrar) {
		driverv1.RegisterDriverServer(r, newer{features: features})
	}}))
	if err != nil || len(drivers) != 1 {
		t.Fatalf("%d drivers, %v", len(drivers), err)
	}
	return drivers[0]
}

func TestFeaturesThatThisSideDoesNotKnowAreKeptAndHarmless(t *testing.T) {
	d := connectNewer(t, []string{"teleport", "list_tasks", "list_tasks", "\x1b[2J", "A B", ""})
	if got := driver.Features(d); !slices.Equal(got, []driver.Feature{"teleport", "list_tasks"}) {
		t.Errorf("got %q", got)
	}
}

func TestAPluginOfTheFirstReleaseAnnouncesNothing(t *testing.T) {
	if got := driver.Features(connectNewer(t, nil)); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}

// guest keeps the hosts that introduced themselves.
type guest struct {
	plain
	mu    sync.Mutex
	hosts []plugin.Host
}

func (g *guest) SetHost(h plugin.Host) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hosts = append(g.hosts, h)
}

func TestAHostIntroducesItselfToThoseWhoAsk(t *testing.T) {
	g := &guest{}
	conn := serve(t, driver.Service(g, plain{}))
	if _, err := plugin.Ask(t.Context(), conn); err != nil || len(g.hosts) != 0 {
		t.Fatalf("a ping without an introduction: %+v, %v", g.hosts, err)
	}
	host := filled[plugin.Host]()
	for range 2 { // a restarted agent introduces itself again
		info, err := plugin.Introduce(t.Context(), conn, host)
		if err != nil || info.Name != "echo" {
			t.Fatalf("%+v, %v", info, err)
		}
	}
	same(t, "SetHost", g.hosts, []plugin.Host{host, host})
}
