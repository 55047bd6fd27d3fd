#!/usr/bin/env bash
# Measures VOLUMES (200) volumes of a CSI driver that attaches, claimed by the allocs of one job at
# once and given back at once: the time until all run and until nobody has a volume, and the
# calls to the driver for each volume. The driver is the one of the tests (netdisk), so its
# calls cost next to nothing. Needs root, curl, `make build` and the agent's default ports.
set -euo pipefail
cd "$(dirname "$0")/.."
n=${VOLUMES:-200} bin=$PWD/bin
dir=$(mktemp -d) agent=0
end() {
	kill -9 "$agent" 2>/dev/null || true
	for pid in $(grep -lz -- "$dir" /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | cut -d/ -f3 | sort -u); do
		[ "$pid" = $$ ] || kill -9 "$pid" 2>/dev/null || true
	done
	sleep 1
	# shellcheck disable=SC2046 # one path a word
	umount $(awk -v d="$dir/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo | sort -r) 2>/dev/null || true
	rm -rf "$dir"
}
trap end EXIT
chmod 755 "$dir"
mkdir -p "$dir/shared/faults"
CGO_ENABLED=0 go build -o "$dir/netdisk" ./test/e2e/harness/testdata/netdisk
cat >"$dir/a.hcl" <<-HCL
	data_dir = "$dir/data"
	client {
	  cpu_total_compute = 200000
	  memory_total_mb   = 200000
	}
	plugin "raw_exec" {
	  config { enabled = true }
	}
HCL
"$bin/drover" agent -dev -config "$dir/a.hcl" >"$dir/log" 2>&1 &
agent=$!
get() { curl -gs "localhost:4646$1"; }
until get /v1/nodes | grep -q '"Status":"ready"'; do sleep .05; done
cat >"$dir/driver.hcl" <<-HCL
	job "netdisk" {
	  group "g" {
	    task "t" {
	      driver = "raw_exec"
	      config {
	        command = "$dir/netdisk"
	        args    = ["-shared", "$dir/shared", "-node-id", "n1"]
	      }
	      csi_plugin {
	        id   = "netdisk"
	        type = "monolith"
	      }
	    }
	  }
	}
HCL
"$bin/drover" job run -detach "$dir/driver.hcl" >/dev/null
until get /v1/plugin/csi/netdisk | grep -q '"NodesHealthy":1'; do sleep .05; done
for i in $(seq 0 $((n - 1))); do
	curl -gsf -o /dev/null -X PUT "localhost:4646/v1/volume/csi/v[$i]/create" -d "{\"Volumes\":[{\"ID\":\"v[$i]\",\"Name\":\"v-$i\",\"PluginID\":\"netdisk\",\"RequestedCapabilities\":[{\"AccessMode\":\"single-node-writer\",\"AttachmentMode\":\"file-system\"}]}]}"
done
cat >"$dir/job.hcl" <<-HCL
	job "w" {
	  group "g" {
	    count = $n
	    volume "d" {
	      type            = "csi"
	      source          = "v"
	      per_alloc       = true
	      access_mode     = "single-node-writer"
	      attachment_mode = "file-system"
	    }
	    task "t" {
	      driver = "raw_exec"
	      config {
	        command = "/bin/sleep"
	        args    = ["600"]
	      }
	      resources {
	        cpu    = 20
	        memory = 20
	      }
	    }
	  }
	}
HCL
ms() { echo $((($(date +%s%N) - $1) / 1000000)); }
: >"$dir/shared/calls"
began=$(date +%s%N)
"$bin/drover" job run -detach "$dir/job.hcl" >/dev/null
until [ "$(get /v1/job/w/allocations | grep -o '"ClientStatus":"running"' | wc -l)" = "$n" ]; do sleep .05; done
claimed=$(ms "$began")
[ "$(grep -c per-alloc /proc/self/mountinfo)" -ge "$n" ] || { echo "volumes are not mounted" >&2; exit 1; }
began=$(date +%s%N)
"$bin/drover" job stop -detach w >/dev/null
left() { find "$dir/shared/volumes" -path '*/attached/*' | wc -l; }
for _ in $(seq 2400); do
	[ "$(left)" = 0 ] && [ "$(get /v1/job/w/allocations | grep -o '"ClientStatus":"complete"' | wc -l)" = "$n" ] && break
	sleep .05
done
echo "$n volumes claimed and mounted: $claimed ms; given back and detached: $(ms "$began") ms; still attached: $(left), mounts left: $(grep -c "$dir.*per-alloc" /proc/self/mountinfo || true); load $(cut -d' ' -f1 /proc/loadavg)"
echo "calls for each volume (the spec needs one of each):"
awk -v n="$n" '$4 == "begins" {b[$2]++} $4 == "fails:" {f[$2]++} END {for (c in b) printf "  %-28s %.2f, of which failed %.2f\n", c, b[c]/n, f[c]/n}' "$dir/shared/calls" | sort
