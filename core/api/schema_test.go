// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

func TestTheSchemasOfADriverComeWithTheNodesThatHaveThem(t *testing.T) {
	srv := serve(t, newBackend(&fakeView{index: 9,
		schemas: []*model.DriverSchema{
			{Hash: "old", Driver: "docker", Body: []byte(`{"driver":"docker"}`), CreateIndex: 3, UnusedSince: 1e18},
			{Hash: "new", Driver: "docker", Body: []byte(`{"driver":"docker","task":{}}`), CreateIndex: 5},
		},
		uses: []*model.DriverUse{
			{Driver: "docker", Hash: "new", Version: "2.0", Datacenter: "dc1", NodePool: "default", Nodes: 2, Detected: true},
			{Driver: "docker", Hash: "new", Version: "2.1", Datacenter: "dc2", NodePool: "default", Nodes: 1},
			{Driver: "bare", Version: "1.0", Nodes: 1, Detected: true},
		},
	}))
	_, body := ask(t, srv, "GET", "/v1/schemas/driver/docker", "")
	got := decode[api.DriverSchemas](t, body)
	if got.Nodes != 2 || len(got.Schemas) != 2 {
		t.Fatalf("got %s", body)
	}
	newest, older := got.Schemas[0], got.Schemas[1]
	if newest.Hash != "new" || newest.Nodes != 3 || !slices.Equal(newest.Versions, []string{"2.0", "2.1"}) || len(newest.Uses) != 2 || string(newest.Schema) != `{"driver":"docker","task":{}}` || newest.UnusedSince != nil {
		t.Errorf("the newest is %+v", newest)
	}
	if older.Hash != "old" || older.Nodes != 0 || older.UnusedSince == nil {
		t.Errorf("the other is %+v", older)
	}
	_, body = ask(t, srv, "GET", "/v1/schemas/driver/bare", "")
	if got := decode[api.DriverSchemas](t, body); got.Nodes != 1 || got.Schemas == nil || len(got.Schemas) != 0 {
		t.Errorf("a driver without a schema: %s", body)
	}
	if resp, body := ask(t, srv, "GET", "/v1/schemas/driver/none", ""); resp.StatusCode != http.StatusNotFound || body != "driver not found" {
		t.Errorf("a driver that nobody has: %d %s", resp.StatusCode, body)
	}
	_, body = ask(t, srv, "GET", "/v1/schemas/drivers", "")
	if got := decode[[]api.DriverSchema](t, body); len(got) != 2 || got[0].Schema != nil || got[0].Driver != "docker" {
		t.Errorf("the list is %s", body)
	}
}
