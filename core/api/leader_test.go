// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
)

// deposed is a server that leads when a request comes, and no longer once it was answered
// here. It notes what it hands on to its successor.
type deposed struct{ handed []string }

func (*deposed) Leads() bool             { return true }
func (*deposed) CatchUp(context.Context) {}
func (l *deposed) Do(_ http.ResponseWriter, r *http.Request, _ bool, here func(*http.Request) (any, error)) (any, error) {
	if _, err := here(r); err != nil {
		return nil, err
	}
	l.handed = append(l.handed, r.URL.RawQuery)
	return here(r)
}

// Otherwise a leader that loses its lead while a client waits makes its successor wait once
// more, and the client gets its answer late or none.
func TestALeaderThatIsDeposedDuringABlockingQueryHandsItOnWithoutItsWait(t *testing.T) {
	l := &deposed{}
	srv := serveAPI(t, api.New(newBackend(oneAlloc()), hclog.NewNullLogger(), api.Config{Leader: l}))
	for sent, want := range map[string]string{"index=1000&wait=1ms&prefix=j": "prefix=j", "prefix=j": "prefix=j"} {
		l.handed = nil
		resp, err := srv.Client().Get(srv.URL + "/v1/jobs?" + sent)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK || len(l.handed) != 1 || l.handed[0] != want {
			t.Errorf("%s: %s, handed on: %q", sent, resp.Status, l.handed)
		}
	}
}
