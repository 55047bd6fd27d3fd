#!/bin/sh
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Makes the disk image of a small guest: Debian's cloud kernel and a ram disk of
# busybox, booted by SYSLINUX from a FAT file system.
#
#   make.sh DISK.img
#
# The guest says "guest up" on its console, serves http://:80/ ("hello from the
# guest"; /boot_id differs for each boot), obeys its power button, and runs the QEMU guest agent if this machine has
# one. It needs syslinux, mtools, dosfstools, a static busybox, kmod's modules and a
# kernel in /boot (apt-get install syslinux mtools dosfstools busybox-static
# linux-image-cloud-amd64 qemu-guest-agent), and exits with 77 where one is missing.
set -eu
disk=${1:?usage: make.sh DISK.img}
PATH=$PATH:/usr/sbin:/sbin
missing() { echo "skipped: $1 is missing" >&2; exit 77; }

kernel=${KERNEL:-$(ls /boot/vmlinuz-*-cloud-amd64 2>/dev/null | sort -V | tail -1)}
[ -r "$kernel" ] || missing "a kernel such as /boot/vmlinuz-6.1.0-cloud-amd64 (or KERNEL=...)"
for tool in syslinux mcopy mkfs.vfat busybox; do command -v $tool >/dev/null || missing $tool; done
busybox=$(command -v busybox)
modules=/lib/modules/${kernel##*/vmlinuz-}/kernel
[ -d "$modules" ] || missing "$modules"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/bin" "$root/etc/acpi/PWRF" "$root/modules" "$root/www" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/run" "$root/var/run"
cp "$busybox" "$root/bin/busybox"
for tool in $("$busybox" --list); do [ "$tool" = busybox ] || ln -sf busybox "$root/bin/$tool"; done
echo 'root:x:0:0::/:/bin/sh' > "$root/etc/passwd"
echo 'hello from the guest' > "$root/www/index.html"
n=10
for name in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci failover net_failover virtio_net virtio_console button evdev; do
	file=$(find "$modules" -name "$name.ko")
	[ -z "$file" ] || cp "$file" "$root/modules/$n-$name.ko"
	n=$((n + 1))
done
agent=$(command -v qemu-ga || true)
if [ -n "$agent" ]; then
	cp "$agent" "$root/bin/qemu-ga"
	ldd "$agent" | grep -o '/[^ ]*' | while read -r lib; do
		mkdir -p "$root$(dirname "$lib")"
		cp -L "$lib" "$root$lib"
	done
fi
# The last words go through the kernel's log: it has written them to the serial line
# when echo returns, whereas poweroff drops what waits in the console's own buffer.
cat > "$root/etc/acpi/PWRF/00000080" <<'EOS'
#!/bin/sh
echo "<0>power button" > /dev/kmsg
poweroff -f
EOS
cat > "$root/bin/shutdown" <<'EOS'
#!/bin/sh
echo "<0>shutdown by the agent" > /dev/kmsg
poweroff -f
EOS
cat > "$root/init" <<'EOS'
#!/bin/sh
export PATH=/bin HOME=/
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
for pass in 1 2 3; do for m in /modules/*.ko; do insmod "$m" 2>/dev/null; done; done # whichever needs which
grep -q nopower /proc/cmdline || acpid -l /dev/null
ip link set lo up
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip route add default via 10.0.2.2
cat /proc/sys/kernel/random/boot_id > /www/boot_id
httpd -h /www
mkdir -p /sbin && ln -sf /bin/shutdown /sbin/shutdown # as the agent calls it
for port in /dev/vport?p1; do
	[ ! -e "$port" ] || [ ! -e /bin/qemu-ga ] || qemu-ga -d -m virtio-serial -p "$port" -f /run/qga.pid -t /run
done
echo "guest up"
while :; do sleep 3600; done
EOS
chmod 755 "$root/init" "$root/etc/acpi/PWRF/00000080" "$root/bin/shutdown"
(cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) > "$work/initrd"

dd if=/dev/zero of="$disk" bs=1M count=0 seek=48 2>/dev/null
mkfs.vfat -F 16 -n GUEST "$disk" >/dev/null
cat > "$work/syslinux.cfg" <<EOS
DEFAULT guest
LABEL guest
  KERNEL vmlinuz
  INITRD initrd
  APPEND console=ttyS0 quiet panic=-1 ${APPEND:-}
EOS
mcopy -i "$disk" "$kernel" ::vmlinuz
mcopy -i "$disk" "$work/initrd" ::initrd
mcopy -i "$disk" "$work/syslinux.cfg" ::syslinux.cfg
syslinux --install "$disk"
