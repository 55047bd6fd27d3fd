// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/internal/testkit/leaks"
)

func TestMain(m *testing.M) {
	testkit.UseDNS()
	leaks.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

func TestAJobRunsOnANodeUntilItIsStopped(t *testing.T) {
	c := testkit.Start(t)
	c.Node(nil)
	c.Run("web", 3)
	c.Must("DELETE", "/v1/job/web", nil, nil)
	c.Eventually("every alloc is complete", func() bool {
		for _, a := range c.View().AllocsByJob("default", "web") {
			if a.ClientStatus != model.AllocClientStatusComplete {
				return false
			}
		}
		return true
	})
	c.Eventually("the job is dead", func() bool { return c.View().JobByID("default", "web").Status == model.JobStatusDead })
}

func TestWorkGoesOnAfterTheNumberOfWorkersChanges(t *testing.T) {
	c := testkit.Start(t)
	c.Node(nil)
	for i, workers := range []int{1, 4, 2} {
		if err := c.Server.Workers().Set(workers); err != nil {
			t.Fatal(err)
		}
		c.Eventually("as many workers run as are wanted", func() bool {
			running, _ := c.Server.Workers().Running()
			return len(running) == workers
		})
		c.Run("web"+string(rune('a'+i)), 2)
	}
	if err := c.Server.Workers().Set(0); err == nil {
		t.Error("a server without workers was accepted")
	}
}

// inDir runs a server on a directory and closes it before it returns.
func inDir(t *testing.T, dir string, do func(t *testing.T, c *testkit.Cluster)) {
	t.Helper()
	t.Run("", func(t *testing.T) { do(t, testkit.StartIn(t, dir)) })
}

func TestJobsVariablesAndTheServersIdSurviveARestart(t *testing.T) {
	dir, id := t.TempDir(), ""
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		id = c.Server.ID()
		c.Must("PUT", "/v1/jobs", map[string]any{"Job": testkit.Job("web", 1)}, nil)
		c.Must("PUT", "/v1/var/app/db", `{"Items":{"password":"hunter2"}}`, nil)
	})
	inDir(t, dir, func(t *testing.T, c *testkit.Cluster) {
		if c.Server.ID() != id {
			t.Errorf("the server is now %s, was %s", c.Server.ID(), id)
		}
		var job struct{ ID string }
		c.Eventually("the job is there", func() bool { return c.View().JobByID("default", "web") != nil })
		c.Must("GET", "/v1/job/web", nil, &job)
		var v struct{ Items map[string]string }
		c.Must("GET", "/v1/var/app/db", nil, &v)
		if v.Items["password"] != "hunter2" {
			t.Errorf("the variable holds %v", v.Items)
		}
	})
}

func TestARestoredSnapshotIsTheWholeStateAndWorkGoesOn(t *testing.T) {
	c := testkit.Start(t)
	c.Node(nil)
	c.Run("kept", 2)
	resp, saved := c.Ask("GET", "/v1/operator/snapshot", nil)
	if resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Digest"), "sha-256=") || int64(len(saved)) != resp.ContentLength {
		t.Fatalf("%s, %d bytes, %v", resp.Status, len(saved), resp.Header)
	}
	c.Run("gone", 2)
	before := c.Server.Raft().LastIndex()
	c.Must("PUT", "/v1/operator/snapshot", saved, nil)
	if c.View().JobByID("default", "gone") != nil || c.View().JobByID("default", "kept") == nil {
		t.Error("the state is not that of the snapshot")
	}
	// The node's session goes on or begins anew; either way new work is placed.
	c.Run("new", 2)
	if now := c.View().Index(); now <= before {
		t.Errorf("the index is %d, not above the %d of before the restore", now, before)
	}
	if resp, body := c.Ask("PUT", "/v1/operator/snapshot", saved[:len(saved)/2]); resp.StatusCode != 400 || !strings.Contains(body, "nothing was restored") {
		t.Errorf("half a snapshot: %s %s", resp.Status, body)
	}
	if c.View().JobByID("default", "new") == nil {
		t.Error("half a snapshot changed the state")
	}
}
