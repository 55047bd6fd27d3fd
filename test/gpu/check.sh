#!/usr/bin/env bash
# Runs jobs on a real NVIDIA GPU with a real agent, and says "ok" or "FAIL" per check.
# usage: check.sh BIN (the folder that `make build` fills). Needs root, the NVIDIA driver
# and nvcc (or the environment variable BUSY with the path of a compiled busy.cu). It
# changes no setting of the GPU. The exit code is the number of failed checks.
set -uo pipefail
bin=$(realpath "${1:-bin}")
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d)
failed=0
export DROVER_ADDR=http://127.0.0.1:24646 NO_COLOR=1

say() { if [ "$2" = 0 ]; then echo "ok    $1"; else echo "FAIL  $1${3:+: $3}"; failed=$((failed + 1)); fi; }
# until SECONDS COMMAND... runs the command until it succeeds.
until_() {
	local end=$((SECONDS + $1)); shift
	until "$@" >"$dir/last" 2>&1; do
		((SECONDS > end)) && return 1
		sleep 0.2
	done
}
# awaits WORDS SECONDS COMMAND... is a check: the command succeeds in time.
awaits() {
	local what=$1 limit=$2; shift 2
	until_ "$limit" "$@"; say "$what" $? "$(tail -n 6 "$dir/last")"
}
drover() { "$bin/drover" "$@"; }
agent() {
	cat >"$dir/agent.hcl" <<HCL
data_dir  = "$dir/data"
bind_addr = "127.0.0.1"
ports {
  http = 24646
  rpc  = 24647
  serf = 24648
}
server {
  enabled          = true
  bootstrap_expect = 1
}
client { enabled = true }
plugin_dir = "$bin/plugins"
plugin "raw_exec" {
  config { enabled = true }
}
plugin "nvidia-gpu" {
  config {
    fingerprint_period = "${period:-1s}"
    library = "${LIBRARY:-}"
    ${1:-}
  }
}
HCL
	"$bin/drover" agent -config "$dir/agent.hcl" >>"$dir/agent.log" 2>&1 &
	agent=$!
	until_ 60 ready || { echo "the agent did not start:"; tail -20 "$dir/agent.log"; exit 99; }
}
ready() { kill -0 $agent && drover node status -self -json | grep -q '"Status": *"ready"'; }
devices() { drover node status -self -json | python3 "$here/show.py" devices; }
healthy() { [ "$(devices | grep -c ' healthy$')" = "$1" ]; }
# job NAME DRIVER ASKS COMMAND runs a job whose task runs a shell command.
job() {
	cat >"$dir/$1.hcl" <<HCL
job "$1" {
  type = "${type:-service}"
  group "g" {
    count = ${count:-1}
    reschedule {
      attempts  = 0
      unlimited = false
    }
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "t" {
      driver = "$2"
      config {
        command = "/bin/sh"
        args    = ["-c", <<SH
echo visible=\$NVIDIA_VISIBLE_DEVICES; $4
SH
        ]
      }
      resources {
        memory = 4096
        $3
      }
    }
  }
}
HCL
	drover job run -detach "$dir/$1.hcl" >"$dir/$1.out" 2>&1 || cat "$dir/$1.out"
}
allocs() { drover job allocs -json "$1" | python3 "$here/show.py" allocs "$2"; }
count_() { [ "$(allocs "$1" "$2" | wc -l)" = "$3" ]; }
logs() { local a; for a in $(allocs "$1" any); do drover alloc logs "$a"; drover alloc logs -stderr "$a"; done; }
logged() { logs "$1" | grep -qE "$2"; }
stats() { drover alloc status -stats "$(allocs "$1" running | head -1)"; }
measured() { stats "$1" | grep -E "$2"; }
taskpid() { pgrep -f "^$busy " | sort | head -1; }

gpu='device "nvidia/gpu" {}'
uuid=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -1)
gpus=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | wc -l)
busy=${BUSY:-}
if [ -z "$busy" ]; then
	busy=$dir/busy
	nvcc -O2 -cudart static -o "$busy" "$here/busy.cu" || { echo "cannot compile busy.cu"; exit 99; }
fi
chmod 755 "$dir"
trap 'kill -INT $agent 2>/dev/null; wait $agent 2>/dev/null; [ $failed = 0 ] || { echo "--- agent.log"; grep -E "ERROR|WARN" "$dir/agent.log" | tail -30; }' EXIT

echo "--- the machine"
nvidia-smi --query-gpu=name,memory.total,driver_version,mig.mode.current,power.limit,clocks.max.sm,pcie.link.gen.max --format=csv,noheader
uname -r; stat -fc 'cgroup filesystem: %T' /sys/fs/cgroup

echo "--- the contract, with the real library"
drover plugin check "$bin/plugins/device-nvidia" >"$dir/check" 2>&1; say "plugin check" $? "$(grep -iE 'fail|broken|error' "$dir/check" | head -5)"
tail -3 "$dir/check"

echo "--- the node"
agent
awaits "all GPUs are healthy devices" 30 healthy "$gpus"
devices
drover node status -self -json | python3 "$here/show.py" attributes

echo "--- a task on a GPU (raw_exec)"
begin=$(date +%s%N)
job busy raw_exec "$gpu" "exec $busy 600 2000"
awaits "it runs" 60 count_ busy running 1
echo "      asked for until seen running: $((($(date +%s%N) - begin) / 1000000)) ms"
awaits "it sees the UUID of its GPU" 20 logged busy "visible=$uuid"
awaits "it computes" 30 logged busy computing
awaits "its stats have its memory" 30 measured busy '[2-9][0-9]{3} / [0-9]+ MiB'
stats busy | grep -A30 -i 'device stats' | head -30
drover node status -self -stats | grep -A12 -i 'device' | head -20
if [ "$gpus" = 1 ]; then
	job second raw_exec "$gpu" "sleep 600"
	awaits "a second job waits, and is told why" 20 sh -c "'$bin/drover' job status second | grep -iE 'device'"
	awaits "explain counts the GPUs in use" 20 sh -c "'$bin/drover' job explain second | grep 'nvidia/gpu: 1 asked, 0 free'"
fi

echo "--- agent and plugin are killed"
pid=$(taskpid)
kill -9 $agent; wait $agent 2>/dev/null
agent
awaits "after kill -9 of the agent the task runs on" 30 count_ busy running 1
[ "$(taskpid)" = "$pid" ]; say "with the same process" $? "$pid, now $(taskpid)"
awaits "its stats are there again" 30 measured busy '[2-9][0-9]{3} / [0-9]+ MiB'
plugin=$(drover plugin status -json 2>/dev/null | python3 "$here/show.py" plugin device-nvidia)
echo "      the plugin's process $plugin: $(grep -E 'VmRSS' /proc/$plugin/status | tr -s '\t ' ' ')"
kill -9 "$plugin"
awaits "after kill -9 of the plugin another process serves" 60 sh -c "p=\$('$bin/drover' plugin status -json | python3 '$here/show.py' plugin device-nvidia); [ -n \"\$p\" ] && [ \"\$p\" != '$plugin' ] && [ \"\$p\" != 0 ]"
awaits "the GPU is healthy" 30 healthy "$gpus"
[ "$(taskpid)" = "$pid" ]; say "the task is the same process" $?
awaits "its stats are there again" 30 measured busy '[2-9][0-9]{3} / [0-9]+ MiB'
drover job stop -purge -detach busy >/dev/null
[ "$gpus" = 1 ] && { awaits "the second job gets the GPU when the first has ended" 60 count_ second running 1; drover job stop -purge -detach second >/dev/null; }

echo "--- a program that fails is no fault of the GPU"
until_ 30 count_ second running 0
type=batch job fault raw_exec "$gpu" "exec $busy fault"
awaits "it fails" 60 count_ fault failed 1
sleep 5 # five fingerprints
healthy "$gpus"; say "the GPU is still healthy" $? "$(devices)"
dmesg 2>/dev/null | grep -i xid | tail -1
drover job stop -purge -detach fault >/dev/null

echo "--- isolation (exec)"
cp "$busy" /usr/local/bin/drover-gpu-busy 2>/dev/null
type=batch job inside exec "$gpu" 'nvidia-smi -L; ls /dev | grep nvidia | tr "\\\\n" " "; exec /usr/local/bin/drover-gpu-busy 3 500'
awaits "a task of exec computes on its GPU" 90 count_ inside complete 1
logs inside | tail -6
type=batch job outside exec '' 'ls /dev | grep nvidia | tr "\\\\n" " "; mknod /tmp/n c 195 0 && cat /tmp/n; nvidia-smi -L; exec /usr/local/bin/drover-gpu-busy 3 500'
awaits "a task without one cannot compute" 90 count_ outside failed 1
logs outside | tail -6
rm -f /usr/local/bin/drover-gpu-busy
for j in inside outside; do drover job stop -purge -detach $j >/dev/null; done

echo "--- what the plugin costs"
kill -INT $agent; wait $agent 2>/dev/null
period=1m agent "shares = 4"
awaits "each GPU is four instances" 30 healthy $((4 * gpus))
plugin=$(drover plugin status -json 2>/dev/null | python3 "$here/show.py" plugin device-nvidia)
ticks() { awk '{print $14+$15}' "/proc/$plugin/stat"; }
a=$(ticks); sleep 15; b=$(ticks)
echo "      idle for 15 s: $(((b - a) * 10)) ms of CPU; $(awk '/^Pss:/{print $2 " kB PSS"}' /proc/$plugin/smaps_rollup)"

echo "--- shares"
count=5 job shared raw_exec "$gpu" "exec $busy 600 1000"
[ "$gpus" = 1 ] && { awaits "four of five share the GPU" 60 count_ shared running 4; }
awaits "each computes" 30 sh -c "[ \$(nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l) = 4 ]"
nvidia-smi --query-gpu=memory.used,utilization.gpu --format=csv,noheader
drover job stop -purge -detach shared >/dev/null
awaits "nothing is left on the GPU" 30 sh -c "[ \$(nvidia-smi --query-compute-apps=pid --format=csv,noheader | wc -l) = 0 ]"

echo "--- MIG instances on demand where MIG mode is off"
kill -INT $agent; wait $agent 2>/dev/null
agent 'mig_profiles = ["1g.10gb"]'
awaits "the plugin says that the profiles have no effect" 20 sh -c "'$bin/drover' plugin status device-nvidia | grep 'mig_profiles has no effect'"
echo "$failed failed"
exit $failed
