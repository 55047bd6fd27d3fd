// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package netspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/osthread"
)

// Probe says why this process cannot make namespaces; nil if it can.
func Probe() error {
	if os.Geteuid() != 0 {
		return errdefs.FailedPreconditionf("networks of allocs need an agent that runs as root")
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		return errdefs.FailedPreconditionf("the kernel has no network namespaces: %w", err)
	}
	return nil
}

// Is reports whether there is a namespace at the path: a file that nothing is
// mounted on was left by a kill or a reboot.
func Is(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.NSFS_MAGIC
}

// forAnyUser are settings of a namespace in which all users may listen on every port, and may
// send pings. A namespace belongs to one alloc, so its low ports are nobody else's. Container
// engines set the same.
var forAnyUser = map[string]string{
	"/proc/sys/net/ipv4/ip_unprivileged_port_start": "0",
	"/proc/sys/net/ipv4/ping_group_range":           "0 2147483647",
}

// Make makes a namespace and mounts it at the path, unless there is one. Where the kernel
// allows it, processes there need no rights for low ports and pings.
func Make(path string) error {
	if Is(path) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the namespace: %w", err)
	}
	_ = f.Close() // it is empty
	err = osthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		for key, value := range forAnyUser {
			_ = os.WriteFile(key, []byte(value), 0) // of the thread's namespace; most tasks need neither
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
	if err != nil {
		return errdefs.FailedPreconditionf("make the namespace %s: %w", path, err)
	}
	return nil
}

// Remove removes what Make has made. Its processes keep it until they
// end.
func Remove(path string) error {
	for Is(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount the namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the namespace: %w", err)
	}
	return nil
}

// Within opens a namespace for netlink. Its caller closes both.
func Within(path string) (netns.NsHandle, *netlink.Handle, error) {
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return ns, nil, errdefs.FailedPreconditionf("open the namespace %s: %w", path, err)
	}
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		_ = ns.Close()
		return ns, nil, errdefs.FailedPreconditionf("enter the namespace %s: %w", path, err)
	}
	return ns, h, nil
}

// LoopbackUp brings the loopback of a namespace up.
func LoopbackUp(path string) error {
	ns, h, err := Within(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	// The kernel gives it this index in every namespace, so it need not be looked for.
	const loopback = 1
	if err := h.LinkSetUp(&netlink.Device{LinkAttrs: netlink.LinkAttrs{Name: "lo", Index: loopback}}); err != nil {
		return fmt.Errorf("bring the loopback of the namespace up: %w", err)
	}
	return nil
}

// AllowIPv6 lets interfaces of a namespace have addresses of IPv6, which docker forbids in those
// that it makes. One on which the kernel has no IPv6 stays as it is.
func AllowIPv6(path string, interfaces ...string) error {
	ns, err := os.Open(path)
	if err != nil {
		return errdefs.FailedPreconditionf("open the namespace %s: %w", path, err)
	}
	defer ns.Close()
	return osthread.Do(func() error {
		if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return errdefs.FailedPreconditionf("enter the namespace %s: %w", path, err)
		}
		for _, name := range interfaces {
			key := filepath.Join("/proc/sys/net/ipv6/conf", name, "disable_ipv6") // of the thread's namespace
			now, err := os.ReadFile(key)
			if err != nil || strings.TrimSpace(string(now)) == "0" {
				continue
			}
			if err := os.WriteFile(key, []byte("0"), 0); err != nil {
				return errdefs.FailedPreconditionf("allow IPv6 on the interface %s: %w", name, err)
			}
		}
		return nil
	})
}
