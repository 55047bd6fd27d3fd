// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-project/drover/core/model"
)

// A container writes to a static host volume. It runs a script that a template
// rendered and that a bind mount of the task's directory makes visible. An isolated
// task reads the result.
const sharedVolume = `job "shelf" {
  group "g" {
    volume "shelf" {
      type   = "host"
      source = "books"
    }
    task "writer" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sh"
        args    = ["/opt/tools/write.sh"]
        mounts = [{
          type     = "bind"
          source   = "local"
          target   = "/opt/tools"
          readonly = true
        }]
      }
      volume_mount {
        volume      = "shelf"
        destination = "/srv/shelf"
      }
      template {
        destination = "local/write.sh"
        data        = <<-EOT
          echo "by ${NOMAD_ALLOC_ID}" > /srv/shelf/book
          echo x > /opt/tools/x 2>/dev/null && echo writable > /srv/shelf/wrong
          exec sleep 600
        EOT
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "reader" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "until cat /srv/shelf/book; do sleep 0.1; done; touch /srv/shelf/x 2>/dev/null && echo writable; exec sleep 600"]
      }
      volume_mount {
        volume      = "shelf"
        destination = "/srv/shelf"
        read_only   = true
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`

func TestAHostVolumeIsSharedByAContainerAndAnIsolatedTask(t *testing.T) {
	a := newAgent(t)
	d := a.dockerd()
	books := filepath.Dir(a.Write("books/empty", 0o644, ""))
	for _, dir := range []string{a.Dir, books} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a.Configure(fmt.Sprintf("client {\n  host_volume \"books\" { path = %q }\n}\n", books))
	a.dockerAt(d, "")
	a.Eventually(15*time.Second, "the node knows exec", func() bool {
		nodes, _, err := a.Nodes(a.Context(), nil)
		return err == nil && len(nodes) == 1 && nodes[0].Drivers["exec"] != nil && nodes[0].Drivers["exec"].Healthy
	})
	a.Run(sharedVolume)
	alloc := a.Await("shelf", model.AllocClientStatusRunning, 1)[0].ID
	want := "by " + alloc + "\n"
	a.Eventually(10*time.Second, "the isolated task has read what the container wrote", func() bool {
		out, _ := os.ReadFile(a.Path(alloc, "alloc/logs/reader.stdout.0")) // it may not exist yet
		return string(out) == want
	})
	if out, err := os.ReadFile(filepath.Join(books, "book")); err != nil || string(out) != want {
		t.Errorf("in the volume is %q, %v", out, err)
	}
	for _, name := range []string{"wrong", "x"} {
		if _, err := os.Stat(filepath.Join(books, name)); err == nil {
			t.Errorf("%s was written although a mount is read-only", name)
		}
	}
}
