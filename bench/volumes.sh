#!/usr/bin/env bash
# Measures how long it takes from `volume create` to a running task with the volume, with the
# local CSI driver as a job. Needs root, mkfs.ext4, `make build` and the agent's default ports.
set -uo pipefail
bin=$(realpath "$(dirname "$0")/../bin")
D=$(mktemp -d); cd $D; chmod 755 $D
cat > a.hcl <<H
data_dir = "$D/data"
plugin "raw_exec" {
  config { enabled = true }
}
H
B=$bin; $B/drover agent -dev -config a.hcl >log 2>&1 & A=$!
until curl -s localhost:4646/v1/nodes | grep -q '"Status":"ready"'; do sleep .05; done
cat > p.hcl <<H
job "p" {
  group "g" {
    task "t" {
      driver = "raw_exec"
      config {
        command = "$B/drover-plugins"
        args = ["drover-csi-local", "-data-dir", "$D/disk", "-node-id", "n1"]
      }
      csi_plugin {
        id = "disk"
        type = "monolith"
      }
    }
  }
}
H
$B/drover job run -detach p.hcl >/dev/null
until curl -s localhost:4646/v1/plugin/csi/disk | grep -q '"NodesHealthy":1'; do sleep .05; done
for i in 1 2 3 4 5; do
cat > v.hcl <<H
id = "v$i"
name = "v$i"
type = "csi"
plugin_id = "disk"
capacity_min = "50MiB"
capability {
  access_mode = "single-node-writer"
  attachment_mode = "file-system"
}
H
cat > j.hcl <<H
job "w$i" {
  group "g" {
    volume "d" {
      type = "csi"
      source = "v$i"
      access_mode = "single-node-writer"
      attachment_mode = "file-system"
    }
    task "t" {
      driver = "exec"
      config {
        command = "/bin/sleep"
        args = ["600"]
      }
      volume_mount {
        volume = "d"
        destination = "/srv"
      }
      resources {
        cpu = 20
        memory = 20
      }
    }
  }
}
H
b=$(date +%s%N); $B/drover volume create v.hcl >/dev/null || cat log; c=$(date +%s%N); $B/drover job run -detach j.hcl >/dev/null
until curl -s localhost:4646/v1/job/w$i/allocations | grep -q '"ClientStatus":"running"'; do sleep .01; done; e=$(date +%s%N)
echo "create $(( (c-b)/1000000 )) ms, to running $(( (e-b)/1000000 )) ms"; done
for i in 1 2 3 4 5; do $B/drover job stop -purge -detach w$i >/dev/null; done; sleep 3; $B/drover job stop -purge -detach p >/dev/null; sleep 4; echo "mounts left: $(mount | grep -c $D/data/client/csi)"; kill -INT $A; wait $A || true
umount $D/data/alloc/*/*/secrets 2>/dev/null || true
rm -rf $D
