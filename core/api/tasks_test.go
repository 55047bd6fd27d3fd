// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestSocketsOfTasksAlwaysNeedAToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.ServeTasks(ctx, l, func(_ context.Context, token string) error {
			switch token {
			case "good":
				return nil
			case "later":
				return errdefs.Unavailablef("no server")
			}
			return errdefs.PermissionDeniedf("bad")
		})
	}()
	for header, want := range map[[2]string]int{
		{"X-Other", "good"}: 401, {"X-Nomad-Token", "good"}: 200, {"Authorization", "Bearer good"}: 200, {"Authorization", "Basic good"}: 401,
		{"X-Nomad-Token", "bad"}: 403, {"X-Nomad-Token", "later"}: 500,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/v1/jobs", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(header[0], header[1])
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("%v: %d, not %d", header, r.StatusCode, want)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
