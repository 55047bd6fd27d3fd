// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package pluginhost_test

import (
	"slices"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/pluginhost/registry"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestServicesStayRegisteredOverTheDeathOfTheirPlugin(t *testing.T) {
	h := start(t, quick(t))
	r := registry.SyncRequest{Owner: "n1", Cluster: "default", Services: []registry.Registration{{ID: "web-1", Name: "web", Port: 80}}}
	if _, err := h.SyncServices(t.Context(), "book", r); !errdefs.IsNotFound(err) {
		t.Fatalf("without a plugin: %v, want NotFound", err)
	}
	if err := installVersioned(t, h, "1.0.0", `"Drivers":["shell"],"Registries":["book"]`); err != nil {
		t.Fatal(err)
	}
	if st := only(t, h); !slices.Equal(st.Registries, []string{"book"}) {
		t.Fatalf("the status says that it serves the registries %q", st.Registries)
	}
	eventually(t, "the cluster is known", func() bool {
		prints, _ := h.Registries()
		return len(prints) == 1 && len(prints[0].Clusters) == 1 && prints[0].Clusters[0].Healthy
	})
	if _, err := h.SyncServices(t.Context(), "book", r); err != nil {
		t.Fatal(err)
	}
	if err := kill(only(t, h).PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another process knows the service", func() bool {
		a, err := h.QueryRegistry(t.Context(), "book", registry.Query{Cluster: "default", Kind: registry.QueryService, Name: "web"})
		return err == nil && len(a.Instances) == 1
	})
	if _, err := h.SyncServices(t.Context(), "book", registry.SyncRequest{Owner: "n1", Cluster: "elsewhere"}); !errdefs.IsNotFound(err) {
		t.Errorf("another cluster: %v, want NotFound", err)
	}
}
