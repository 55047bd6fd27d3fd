// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api/client"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAFullQueueIsAnsweredWithTheTimeOfTheNextTry(t *testing.T) {
	b := newBackend(&fakeView{})
	b.registerErr = errdefs.WithRetryAfter(errdefs.ResourceExhaustedf("5 evaluations wait"), 1500*time.Millisecond)
	srv := serve(t, b)
	r, err := http.Post(srv.URL+"/v1/jobs", "application/json", strings.NewReader(`{"Job":{"ID":"a"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "2" || string(text) != "5 evaluations wait" {
		t.Errorf("%d, again after %q: %s (%v)", r.StatusCode, r.Header.Get("Retry-After"), text, err)
	}
}

func TestTheLanesOfTheQueueAreListed(t *testing.T) {
	srv := serve(t, newBackend(&fakeView{}))
	c, err := client.New(client.Config{Address: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	lanes, err := c.QueueLanes(t.Context())
	if err != nil || len(lanes) != 1 || lanes[0].Namespace != "team" || lanes[0].NodePool != "gpu" || lanes[0].Weight != 4 || lanes[0].Ready != 2 {
		t.Errorf("%+v, %v", lanes, err)
	}
}
