#!/bin/sh
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Runs the tests of a package in a virtual machine with cgroup version 2 only:
#
#   [PACKAGE=DIRECTORY] [FOREIGN=1] run.sh [-test.run PATTERN ...]
#
# PACKAGE is relative to the repository and by default plugins/driver-exec/driverexec.
# With FOREIGN the machine has a plugin built for Nomad too, for the tests of core/agent:
#
#   PACKAGE=core/agent FOREIGN=1 run.sh -test.v -test.run Executor
#
# MODULES are modules of the kernel that are loaded, and DISKS file systems that
# the machine has as disks, as KIND:SIZE. Tests find the disk of a kind in DROVER_TEST_DISK_KIND:
#
#   PACKAGE=core/agent/quota MODULES=quota_v2 DISKS=ext4:64M run.sh
#
# With AGENT the machine has the programs of an agent, for tests of agents (test/e2e), and
# more memory:
#
#   PACKAGE=test/e2e AGENT=1 MODULES="quota_v2 xfs" DISKS="ext4:256M xfs:512M" run.sh -test.run TestAnAllocCannotWriteMore
#
# With NET the machine has bash, iproute2 and nftables, an interface with a default route, and what
# bridge networks need of the kernel:
#
#   PACKAGE=test/e2e AGENT=1 NET=1 run.sh -test.v -test.run TestAllocsOfBridgeNetworks
#
# It needs qemu-system-x86_64, a static busybox and a kernel in /boot
# (apt-get install qemu-system-x86 busybox-static linux-image-cloud-amd64), and
# exits with 77 where one of them is missing. KERNEL names another kernel. ACCEL=kvm is
# faster, where KVM is a whole one: in some virtual machines it stops the guest for ever.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
missing() { echo "skipped: $1 is missing" >&2; exit 77; }

kernel=${KERNEL:-$(ls /boot/vmlinuz-*-cloud-amd64 2>/dev/null | sort -V | tail -1)}
[ -r "$kernel" ] || missing "a kernel such as /boot/vmlinuz-6.1.0-cloud-amd64 (or KERNEL=...)"
command -v qemu-system-x86_64 >/dev/null || missing qemu-system-x86_64
busybox=$(command -v busybox) || missing busybox

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
root=$work/root
mkdir -p "$root/bin" "$root/etc" "$root/lib64" "$root/usr/bin" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/mnt"
cp "$busybox" "$root/bin/busybox"
for tool in $("$busybox" --list); do [ "$tool" = busybox ] || ln -sf busybox "$root/bin/$tool"; done
printf 'root:x:0:0::/:/bin/sh\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n' > "$root/etc/passwd"
printf 'root:x:0:\ndaemon:x:1:\ntty:x:5:\nnogroup:x:65534:\n' > "$root/etc/group"
echo 'nameserver 192.0.2.53' > "$root/etc/resolv.conf"
echo '127.0.0.1 localhost' > "$root/etc/hosts"
( cd "$here/../../../${PACKAGE:-plugins/driver-exec/driverexec}" && CGO_ENABLED=0 go test -c -trimpath -ldflags '-s -w' -o "$root/test" . )

if [ -n "${FOREIGN:-}" ]; then
	( cd "$here/../../.." && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$root/usr/bin/executor-plugin" ./core/pluginhost/testdata/nomadplugin )
	echo 'export DROVER_TEST_FOREIGN_PLUGIN=/usr/bin/executor-plugin' >> "$root/etc/profile"
fi

memory=1024
if [ -n "${AGENT:-}" ]; then
	memory=2560
	for program in drover drover-plugins; do
		( cd "$here/../../.." && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$root/usr/bin/$program" "./cmd/$program" )
	done
	ln -s drover-plugins "$root/usr/bin/driver-exec"
	echo 'export DROVER_TEST_BIN=/usr/bin; ip link set lo up' >> "$root/etc/profile"
fi

if [ -n "${NET:-}" ]; then
	MODULES="${MODULES:-} dummy bridge veth nf_tables nft_chain_nat nft_nat nft_masq nft_ct nft_fib_inet nf_conntrack nf_conntrack_netlink xfrm_user"
	for program in ip nft bash; do
		path=$(command -v "$program") || missing "$program"
		rm -f "$root/bin/$program" # of busybox
		cp "$path" "$root/bin/"
		for library in $(ldd "$path" | grep -o '/[^ ]*'); do
			mkdir -p "$root${library%/*}"
			cp -L "$library" "$root$library"
		done
	done
	echo 'ip link set lo up; ip link add up0 type dummy; ip address add 198.51.100.10/24 dev up0; ip link set up0 up; ip route add default via 198.51.100.1' > "$root/etc/interfaces"
fi

version=${kernel#*/vmlinuz-}
mkdir -p "$root/modules"
: > "$root/modules/order"
for m in ${MODULES:-} ${DISKS:+virtio_pci virtio_blk}; do
	files=$(modprobe -S "$version" --show-depends "$m") || missing "the module $m of $kernel"
	for file in $(echo "$files" | sed -n 's/^insmod \([^ ]*\).*/\1/p'); do
		cp "$file" "$root/modules/"
		echo "${file##*/}" >> "$root/modules/order"
	done
done
drives= letter=a
for d in ${DISKS:-}; do
	kind=${d%%:*} how=
	command -v "mkfs.$kind" >/dev/null || missing "mkfs.$kind"
	[ "$kind" != ext4 ] || how="-F -O quota,project -E quotatype=prjquota"
	truncate -s "${d#*:}" "$work/$kind"
	"mkfs.$kind" -q $how "$work/$kind"
	drives="$drives -drive file=$work/$kind,format=raw,if=virtio"
	echo "export DROVER_TEST_DISK_$kind=/dev/vd$letter" >> "$root/etc/profile"
	letter=$(echo "$letter" | tr a-y b-z)
done

cat > "$root/init" <<'EOF'
#!/bin/sh
# The root of a ram disk cannot be left by pivot_root, so go to another one.
if [ -z "${SECOND:-}" ]; then
	mount -t tmpfs -o size=40% tmpfs /mnt
	cp -a /bin /etc /lib* /usr /init /test /args /modules /mnt/
	mkdir -p /mnt/proc /mnt/sys /mnt/dev /mnt/tmp
	export SECOND=1
	exec switch_root /mnt /init
fi
export PATH=/bin HOME=/
[ ! -r /etc/profile ] || . /etc/profile
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
ln -s /proc/self/fd /dev/fd
ln -s fd/1 /dev/stdout
for m in $(cat /modules/order); do insmod "/modules/$m" 2>/dev/null || true; done # some are there already
mkdir -p /run /var
ln -s /run /var/run
[ ! -r /etc/interfaces ] || . /etc/interfaces
mkdir -p /dev/pts /dev/shm /dev/net
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup
chmod 1777 /tmp
set -f
/test -test.short $(cat /args)
echo "VM-EXIT $?"
sync
poweroff -f
EOF
chmod 755 "$root/init"
echo "${*:--test.v}" > "$root/args"
( cd "$root" && find . | "$busybox" cpio -o -H newc ) > "$work/initrd" 2>/dev/null

# On a busy machine an emulated timer is late, which the kernel takes for a broken one.
qemu-system-x86_64 -accel "${ACCEL:-tcg}" -m "$memory" -smp 2 -nographic -no-reboot $drives \
	-kernel "$kernel" -initrd "$work/initrd" -append 'console=ttyS0 quiet panic=-1 no_timer_check' \
	</dev/null | tr -d '\r' | tee "$work/log"
grep -q '^VM-EXIT 0' "$work/log"
