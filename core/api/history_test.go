// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func numbered(i int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", i) }

// remembering has the deployments and evals 1 and 2 in its state, and has removed 2 to 5;
// a snapshot has brought 2 back. Those of even numbers belong to the namespace team.
func remembering() *fakeBackend {
	v := oneAlloc()
	b := newBackend(v)
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for i := 1; i <= 5; i++ {
		ns := []string{"team", "default"}[i%2]
		d := &model.Deployment{ID: numbered(i), Namespace: ns, JobID: "web", Status: "failed", CreateIndex: uint64(i), ModifyIndex: uint64(i)}
		e := &model.Evaluation{ID: numbered(i), Namespace: ns, JobID: fmt.Sprint("job", i), Status: "complete", CreateIndex: uint64(i), ModifyIndex: uint64(i)}
		if i <= 2 {
			v.deployments, v.evals = append(v.deployments, d), append(v.evals, e)
		}
		if i >= 2 {
			b.past.deployments = append(b.past.deployments, &model.PastDeployment{Deployment: d, CollectedAt: at})
			b.past.evals = append(b.past.evals, &model.PastEvaluation{Evaluation: e, CollectedAt: at})
		}
	}
	b.past.extent = model.HistoryExtent{Server: "s1", Since: at, Missing: "7 objects are missing"}
	return b
}

// listed are the numbers of the objects of a list, with a "c" behind those that were
// collected.
func listed(t *testing.T, body string) string {
	t.Helper()
	var out []string
	for _, o := range decode[[]struct{ ID, CollectedAt string }](t, body) {
		text := strings.TrimLeft(o.ID[:8], "0")
		if o.CollectedAt != "" {
			text += "c"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestListsIncludeWhatWasCollectedOnlyIfAskedFor(t *testing.T) {
	srv := serveAPI(t, api.New(remembering(), hclog.NewNullLogger(), api.Config{}))
	for query, want := range map[string]string{
		"?namespace=*":                                                     "1 2",
		"?namespace=*&history=true":                                        "1 2 3c 4c 5c",
		"?namespace=*&history=true&reverse=true":                           "5c 4c 3c 2 1",
		"?history=true":                                                    "1 3c 5c",
		"?history=true&namespace=team":                                     "2 4c",
		"?namespace=*&history=true&prefix=00000004":                        "4c",
		"?namespace=*&history=true&per_page=2":                             "1 2",
		"?namespace=*&history=true&per_page=2&next_token=3." + numbered(3): "3c 4c",
		"?namespace=*&history=true&filter=CreateIndex==5":                  "5c",
	} {
		for _, path := range []string{"/v1/deployments", "/v1/evaluations"} {
			resp, body := ask(t, srv, "GET", path+query, "")
			if got := listed(t, body); got != want {
				t.Errorf("%s%s: %q, want %q", path, query, got, want)
			}
			asked := strings.Contains(query, "history")
			if said := resp.Header.Get("X-Drover-History"); asked != (said == "server s1 since 2026-11-01T00:00:00Z") {
				t.Errorf("%s%s: the header says %q", path, query, said)
			}
			if said := resp.Header.Get("X-Drover-Warning"); asked != (said == "7 objects are missing") {
				t.Errorf("%s%s: the warning is %q", path, query, said)
			}
		}
	}
	if _, body := ask(t, srv, "GET", "/v1/evaluations?namespace=*&history=true&job=job4", ""); listed(t, body) != "4c" {
		t.Errorf("those of a job: %s", body)
	}
	if resp, body := ask(t, srv, "GET", "/v1/deployments?history=maybe", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}

func TestWhatIsInTheStateIsListedAlsoIfTheHistoryCannotBeRead(t *testing.T) {
	b := remembering()
	srv := serveAPI(t, api.New(b, hclog.NewNullLogger(), api.Config{}))
	b.past.err = errdefs.ResourceExhaustedf("the disk is full")
	for _, path := range []string{"/v1/deployments", "/v1/evaluations"} {
		resp, body := ask(t, srv, "GET", path+"?namespace=*&history=true", "")
		if got, said := listed(t, body), resp.Header.Get("X-Drover-Warning"); got != "1 2" || !strings.Contains(said, "cannot be read: the disk is full") {
			t.Errorf("%s: %d %q, %q", path, resp.StatusCode, got, said)
		}
	}
	b.past.err = errdefs.Unavailablef("this server is being stopped")
	if resp, body := ask(t, srv, "GET", "/v1/evaluations?history=true", ""); resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("another server can answer: %d %s", resp.StatusCode, body)
	}
}

func TestACollectedObjectIsFoundByItsIDOnlyIfHistoryIsAskedFor(t *testing.T) {
	srv := serveAPI(t, api.New(remembering(), hclog.NewNullLogger(), api.Config{}))
	for _, path := range []string{"/v1/deployment/", "/v1/evaluation/"} {
		for i, want := range map[int][2]int{1: {200, 200}, 4: {404, 200}, 6: {404, 404}} {
			for k, query := range []string{"", "?history=true"} {
				resp, body := ask(t, srv, "GET", path+numbered(i)+query, "")
				if resp.StatusCode != want[k] {
					t.Errorf("%s%d%s: %d %s", path, i, query, resp.StatusCode, body)
				}
				if collected := strings.Contains(body, "CollectedAt"); collected != (i == 4 && k == 1) {
					t.Errorf("%s%d%s: it says that it was collected: %v", path, i, query, collected)
				}
			}
		}
	}
}
