// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package docker_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/model"
)

// madeBy is a volume that a plugin makes.
const madeBy = `type      = "host"
name      = %q
plugin_id = %q
capability {
  access_mode     = "single-node-single-writer"
  attachment_mode = "file-system"
}
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
`

// directoriesPlugin is a plugin that is a program.
const directoriesPlugin = `#!/bin/sh
case "$DHV_OPERATION" in
fingerprint) echo '{"version": "2.0.0"}' ;;
create) mkdir -p "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID.own" && chmod 777 "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID.own" && printf '{"path": "%s", "bytes": 1048576}' "$DHV_VOLUMES_DIR/$DHV_VOLUME_ID.own" ;;
delete) rm -rf "$DHV_CREATED_PATH" ;;
esac
`

// diary is a job whose container and isolated task write to two volumes, and read at their
// start what earlier ones wrote. A task of raw_exec beside them writes to the second one.
const diary = `job "diary" {
  group "g" {
    volume "ours" {
      type        = "host"
      source      = "ours"
      access_mode = "single-node-single-writer"
      sticky      = true
    }
    volume "theirs" {
      type   = "host"
      source = "theirs"
    }
    task "container" {
      driver = "docker"
      config {
        image   = "busybox:drover"
        command = "/bin/sh"
        args    = ["-c", "cat /srv/ours/day; echo container >> /srv/ours/day; exec sleep 600"]
      }
      volume_mount {
        volume      = "ours"
        destination = "/srv/ours"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "isolated" {
      driver = "exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "cat /srv/theirs/day; echo isolated >> /srv/theirs/day; exec sleep 600"]
      }
      volume_mount {
        volume      = "theirs"
        destination = "/srv/theirs"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
    task "plain" {
      driver = "raw_exec"
      config {
        command = "/bin/sh"
        args    = ["-c", "echo plain >> local/theirs/plain; exec sleep 600"]
      }
      volume_mount {
        volume      = "theirs"
        destination = "local/theirs"
      }
      resources {
        cpu    = 20
        memory = 32
      }
    }
  }
}`

// create makes a volume with the command line and returns it as the API has it.
func (a *agent) create(name, plugin string) *api.HostVolume {
	a.T.Helper()
	a.Must("volume", "create", a.Write(name+".volume.hcl", 0o600, fmt.Sprintf(madeBy, name, plugin)))
	list, _, err := a.HostVolumes(a.Context(), "", "", nil)
	if err != nil {
		a.T.Fatal(err)
	}
	for _, v := range list {
		if v.Name == name {
			out, _, err := a.HostVolume(a.Context(), v.ID, nil)
			if err != nil || out.State != model.HostVolumeReady {
				a.T.Fatalf("volume %q is %+v, %v", name, out, err)
			}
			return out
		}
	}
	a.T.Fatalf("no volume %q", name)
	return nil
}

func (a *agent) wrote(v *api.HostVolume, want string) {
	a.T.Helper()
	a.wroteTo(v, "day", want)
}

func (a *agent) wroteTo(v *api.HostVolume, file, want string) {
	a.T.Helper()
	a.Eventually(30*time.Second, "the task has written "+want, func() bool {
		out, _ := os.ReadFile(filepath.Join(v.HostPath, file)) // it may not exist yet
		return string(out) == want
	})
}

// allRun waits until all three tasks of the only alloc of a job run.
func (a *agent) allRun(job string) (out *model.AllocListStub) {
	a.T.Helper()
	a.Eventually(30*time.Second, "all tasks of "+job+" run", func() bool {
		running := 0
		for _, out = range a.Allocs(job, model.AllocClientStatusRunning) {
			for _, s := range out.TaskStates {
				if s.State == model.TaskStateRunning && s.StartedAt != nil {
					running++
				}
			}
		}
		return running == 3
	})
	return out
}

func TestDynamicHostVolumesOutliveTasksJobsAndKillsOfTheAgent(t *testing.T) {
	a := newAgent(t)
	d := a.dockerd()
	if err := os.Chmod(a.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	volumes, plugins := filepath.Join(a.Dir, "volumes"), filepath.Dir(a.Write("volume-plugins/directories", 0o755, directoriesPlugin))
	a.Configure(fmt.Sprintf("client {\n  host_volumes_dir = %q\n  host_volume_plugin_dir = %q\n}\n", volumes, plugins))
	a.dockerAt(d, "")
	a.Eventually(30*time.Second, "the node knows exec and the plugin", func() bool {
		nodes, _, err := a.Nodes(a.Context(), nil)
		if err != nil || len(nodes) != 1 {
			return false
		}
		n, _, err := a.Node(a.Context(), nodes[0].ID, nil)
		return err == nil && n.Drivers["exec"] != nil && n.Drivers["exec"].Healthy && n.Attributes["plugins.host_volume.directories.version"] == "2.0.0"
	})
	ours, theirs := a.create("ours", "mkdir"), a.create("theirs", "directories")
	if theirs.CapacityBytes != 1<<20 || theirs.HostPath != filepath.Join(volumes, theirs.ID+".own") || ours.HostPath != filepath.Join(volumes, ours.ID) {
		t.Errorf("volumes %+v and %+v", ours.HostVolume, theirs.HostVolume)
	}
	a.Run(diary)
	first := a.Await("diary", model.AllocClientStatusRunning, 1)[0]
	a.wrote(ours, "container\n")
	a.wrote(theirs, "isolated\n")
	a.wroteTo(theirs, "plain", "plain\n")

	if out, code := a.CLI("volume", "delete", ours.ID); code == 0 || !strings.Contains(out, "in use by allocations: ["+first.ID+"]") {
		t.Errorf("a volume in use is deleted: %d, %s", code, out)
	}
	if out := a.Must("volume", "status", ours.ID); !strings.Contains(out, first.ID[:8]) || !strings.Contains(out, "single-node-single-writer") {
		t.Errorf("status:\n%s", out)
	}

	first = a.allRun("diary")
	a.Kill()
	a.Start()
	a.Eventually(30*time.Second, "the node offers the volumes again", func() bool {
		x, _, err := a.HostVolume(a.Context(), ours.ID, nil)
		y, _, err2 := a.HostVolume(a.Context(), theirs.ID, nil)
		return err == nil && err2 == nil && x.State == model.HostVolumeReady && y.State == model.HostVolumeReady
	})
	again := a.allRun("diary")
	for task, s := range first.TaskStates {
		if now := again.TaskStates[task]; again.ID != first.ID || now.Restarts != 0 || !now.StartedAt.Equal(*s.StartedAt) {
			t.Errorf("alloc %s became %s after a kill of the agent, task %s started at %v and %v", first.ID, again.ID, task, s.StartedAt, now.StartedAt)
		}
	}

	a.Must("job", "stop", "-detach=false", "diary")
	a.Await("diary", model.AllocClientStatusComplete, 1)
	a.Run(diary)
	a.Await("diary", model.AllocClientStatusRunning, 1)
	a.wrote(ours, "container\ncontainer\n")
	a.wrote(theirs, "isolated\nisolated\n")
	a.wroteTo(theirs, "plain", "plain\nplain\n")
	var claims []*model.VolumeClaim
	if err := json.Unmarshal([]byte(a.Must("volume", "claim", "list", "-json")), &claims); err != nil || len(claims) != 1 || claims[0].VolumeID != ours.ID || claims[0].AllocName != "diary.g[0]" {
		t.Errorf("claims %+v, %v", claims, err)
	}
	a.Must("volume", "claim", "delete", "-y", claims[0].ID)

	a.Must("job", "stop", "-purge", "-detach=false", "diary")
	for _, v := range []*api.HostVolume{ours, theirs} {
		a.Eventually(30*time.Second, "the volume is deleted", func() bool {
			_, code := a.CLI("volume", "delete", v.ID)
			return code == 0
		})
		if _, err := os.Stat(v.HostPath); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", v.HostPath, err)
		}
	}
	if out := a.Must("volume", "status"); !strings.Contains(out, "No dynamic host volumes") {
		t.Errorf("status:\n%s", out)
	}
}
