// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/plugins/driver-docker/dockertest"
	"github.com/drover-project/drover/test/e2e/harness"
)

// eager makes the driver look for orphans constantly.
const eager = `
    gc {
      image_delay = "1s"
      dangling_containers {
        period         = "1s"
        creation_grace = "2s"
      }
    }
`

func TestTwoAgentsOnOneDockerdLeaveEachOthersContainersAlone(t *testing.T) {
	one, d := dockerAgentWith(t, eager)
	two := &agent{harness.Another(t)}
	two.dockerAt(d, eager)
	container := func(a *agent) string {
		t.Helper()
		a.Run(pulled("held", dockertest.BusyBox))
		alloc := a.Await("held", model.AllocClientStatusRunning, 1)[0].ID
		id, err := d.CLI("inspect", "-f", "{{.Id}}", "t-"+alloc)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ones, twos := container(one), container(two)
	label := func(id, name string) string {
		t.Helper()
		out, err := d.CLI("inspect", "-f", fmt.Sprintf("{{index .Config.Labels %q}}", "io.drover."+name), id)
		if err != nil || out == "" {
			t.Fatalf("label %s: %q, %v", name, out, err)
		}
		return out
	}
	made := func(labels ...string) string {
		t.Helper()
		args := []string{"run", "-d", "--init"}
		for _, l := range labels {
			args = append(args, "--label", "io.drover."+l)
		}
		id, err := d.CLI(append(args, dockertest.BusyBox, "sleep", "100000")...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	owner, node := label(ones, "owner"), label(ones, "node_id")
	if owner == label(twos, "owner") || node == label(twos, "node_id") {
		t.Fatal("the two agents have one owner or one node id")
	}
	stay := map[string]string{
		"of the first agent": ones, "of the second agent, which is gone": twos, "without labels": made(),
		"with our labels and another node's id":     made("owner="+owner, "task_id=a/t/1", "alloc_id=a", "task_name=t", "node_id=somebody"),
		"with our labels and without a node's id":   made("owner="+owner, "task_id=a/t/1", "alloc_id=a", "task_name=t"),
		"with our node's id and another's as owner": made("owner="+strings.Repeat("0", 32), "task_id=a/t/1", "alloc_id=a", "task_name=t", "node_id="+node),
	}
	// The second agent dies with all its processes, but its container stays.
	two.Kill()
	for _, pid := range two.Processes("") {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
	}
	// An orphan of the first agent is removed: this proves that the agent has looked for
	// orphans often enough.
	for range 2 {
		lost := made("owner="+owner, "task_id=a/t/1", "alloc_id=a", "task_name=t", "node_id="+node)
		one.Eventually(30*time.Second, "the container that is ours and nobody's is removed", func() bool {
			_, err := d.CLI("inspect", lost)
			return err != nil
		})
	}
	for what, id := range stay {
		if out, err := d.CLI("inspect", "-f", "{{.State.Running}}", id); err != nil || out != "true" {
			t.Errorf("the container %s does not run: %q, %v", what, out, err)
		}
	}
	two.start()
	two.Eventually(20*time.Second, "the second agent has its task again", func() bool {
		out, code := two.CLI("alloc", "exec", "-job", "held", "echo", "well")
		return code == 0 && strings.Contains(out, "well")
	})
}

func TestAnImageOutlivesRestartsOfTheAgentForAsLongAsATaskUsesIt(t *testing.T) {
	a, d := dockerAgentWith(t, eager)
	r := dockertest.NewRegistry(t)
	img, err := dockertest.NewImage("counted")
	if err != nil {
		t.Fatal(err)
	}
	name := r.Push(t, "counted", "1", img)
	there := func() bool {
		_, err := d.CLI("image", "inspect", name)
		return err == nil
	}
	a.Run(pulled("one", name))
	a.Await("one", model.AllocClientStatusRunning, 1)
	a.Run(pulled("two", name))
	a.Await("two", model.AllocClientStatusRunning, 1)
	for i, job := range []string{"one", "two"} {
		a.Kill()
		a.killPlugins() // the new processes then know no tasks
		a.start()
		a.Eventually(20*time.Second, "the tasks are managed again", func() bool {
			_, code := a.CLI("alloc", "exec", "-job", job, "true")
			return code == 0
		})
		a.Must("job", "stop", "-detach", job)
		a.Await(job, model.AllocClientStatusComplete, 1)
		if i == 0 {
			a.Must("system", "gc")
			a.Eventually(20*time.Second, "the first container is gone", func() bool {
				out, err := d.CLI("ps", "-q")
				return err == nil && len(strings.Fields(out)) == 1
			})
			if !there() {
				t.Fatal("the image is gone and a task uses it")
			}
		}
	}
	a.Eventually(30*time.Second, "the image is gone", func() bool { return !there() })
	if r.Pulls() != 1 {
		t.Errorf("the image was fetched %d times", r.Pulls())
	}
}
