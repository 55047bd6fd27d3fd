// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/sdk/errdefs"
)

// probe says why this machine cannot have networks; nil if it can.
func probe() error {
	if os.Geteuid() != 0 {
		return errdefs.FailedPreconditionf("networks of allocs need an agent that runs as root")
	}
	if _, err := os.Stat("/proc/self/ns/net"); err != nil {
		return errdefs.FailedPreconditionf("the kernel has no network namespaces: %w", err)
	}
	if err := probeRules(); err != nil {
		return errdefs.FailedPreconditionf("the kernel's nftables cannot be used; load the module nf_tables: %w", err)
	}
	return nil
}

func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX) }

// isNamespace reports whether there is a namespace at the path: a file that nothing is
// mounted on was left by a kill or a reboot.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && int64(st.Type) == unix.NSFS_MAGIC
}

// makeNamespace makes a namespace and mounts it at the path, unless there is one.
func makeNamespace(path string) error {
	if isNamespace(path) {
		return nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o600)
	if err != nil {
		return fmt.Errorf("make the namespace: %w", err)
	}
	_ = f.Close() // it is empty
	made := make(chan error, 1)
	go func() { // the thread stays locked, so it ends with the goroutine: it is in the new namespace
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return errdefs.FailedPreconditionf("make the namespace %s: %w", path, err)
	}
	return nil
}

// removeNamespace removes what makeNamespace has made. Its processes keep it until they
// end.
func removeNamespace(path string) error {
	for isNamespace(path) {
		if err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil {
			return fmt.Errorf("unmount the namespace %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the namespace: %w", err)
	}
	return nil
}

// within opens a namespace. Its caller closes both.
func within(path string) (netns.NsHandle, *netlink.Handle, error) {
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

func bringLoopbackUp(path string) error {
	ns, h, err := within(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	defer h.Close()
	return loopbackUp(h)
}

func loopbackUp(h *netlink.Handle) error {
	lo, err := h.LinkByName("lo")
	if err == nil {
		err = h.LinkSetUp(lo)
	}
	if err != nil {
		return fmt.Errorf("bring the loopback of the namespace up: %w", err)
	}
	return nil
}
