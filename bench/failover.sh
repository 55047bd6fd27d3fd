#!/usr/bin/env bash
# Measures how long a cluster of three servers takes no writes after its leader was killed
# with -9: the time from the kill to the first write that a follower acknowledges. The
# killed server is started again after each round, and the leader of a round has led for
# STEADY (11) seconds: after less, followers look for its silence less often. ROUNDS (20)
# rounds; needs curl.
set -euo pipefail
cd "$(dirname "$0")/.."
make build >/dev/null
dir=$(mktemp -d) pids=()
trap 'kill -9 "${pids[@]}" 2>/dev/null; rm -rf "$dir"' EXIT
http() { echo "127.0.0.1:$((16640 + $1))"; }
start() {
	bin/drover agent -config "$dir/s$1.hcl" >>"$dir/s$1.log" 2>&1 &
	pids[$1]=$!
}
write() { curl -s -o /dev/null -m 10 -w '%{http_code}' -X PUT "$(http "$1")/v1/var/x" -d '{"Items":{"a":"b"}}'; }
leader() { curl -s -m 2 "$(http "$1")/v1/status/leader" | tr -d '"'; }
for i in 1 2 3; do
	cat >"$dir/s$i.hcl" <<-HCL
		name      = "s$i"
		data_dir  = "$dir/d$i"
		bind_addr = "127.0.0.1"
		ports {
		  http = $((16640 + i))
		  rpc  = $((16650 + i))
		  serf = $((16660 + i))
		}
		server {
		  enabled          = true
		  bootstrap_expect = 3
		  server_join { retry_join = ["127.0.0.1:16661", "127.0.0.1:16662", "127.0.0.1:16663"] }
		}
	HCL
	start "$i"
done
# alive ends the measurement if an agent has ended by itself.
alive() {
	for i in 1 2 3; do
		kill -0 "${pids[$i]}" 2>/dev/null || { echo "the agent s$i has ended; its log ends with:" >&2; tail -20 "$dir/s$i.log" >&2; exit 1; }
	done
}
until [ "$(write 1)" = 200 ]; do alive; sleep 0.1; done
times=()
for _ in $(seq "${ROUNDS:-20}"); do
	sleep "${STEADY:-11}"
	at=$(leader 1) # of 127.0.0.1:PORT
	l=$((${at##*:} - 16650))
	through=$((l % 3 + 1))
	began=$(date +%s%N)
	kill -9 "${pids[$l]}"
	until [ "$(write $through)" = 200 ]; do :; done
	times+=($((($(date +%s%N) - began) / 1000000)))
	wait "${pids[$l]}" 2>/dev/null || true
	start "$l"
	# The next round begins when all three are a cluster again.
	until [ "$(curl -s -m 5 "$(http $through)/v1/operator/autopilot/health" -o /dev/null -w '%{http_code}')" = 200 ] && [ -n "$(leader 1)" ] && [ "$(write 1)" = 200 ]; do alive; sleep 0.2; done
done
printf '%s\n' "${times[@]}" | sort -n | awk '{t[NR] = $1} END {printf "leader killed to the first write through a follower, %d kills: p50 %d ms, p99 %d ms, longest %d ms\n", NR, t[int((NR+1)/2)], t[int(NR*0.99+0.99)], t[NR]}'
