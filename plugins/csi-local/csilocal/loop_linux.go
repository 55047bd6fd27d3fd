// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package csilocal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// loopMajor is the number by which the kernel knows loop devices.
const loopMajor = 7

// attachTries is how often another loop device is tried after somebody else took the free
// one.
const attachTries = 64

// attach makes a file a block device, which it returns open. With auto the kernel takes the
// device apart after its last user, so that a killed driver leaves none.
func attach(path string, auto bool) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open the file of the volume: %w", err)
	}
	defer file.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("this machine has no loop devices (modprobe loop): %w", err)
	}
	defer control.Close()
	config := unix.LoopConfig{Fd: uint32(file.Fd())}
	if auto {
		config.Info.Flags |= unix.LO_FLAGS_AUTOCLEAR
	}
	for range attachTries {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(node(n), os.O_RDWR, 0)
		if errors.Is(err, os.ErrNotExist) { // where /dev is not made by the kernel
			if err = unix.Mknod(node(n), unix.S_IFBLK|0o600, int(unix.Mkdev(loopMajor, uint32(n)))); err == nil {
				device, err = os.OpenFile(node(n), os.O_RDWR, 0)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("open a loop device: %w", err)
		}
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, syscall.EBUSY) {
			return nil, fmt.Errorf("configure a loop device: %w", err)
		}
	}
	return nil, errors.New("others took each free loop device")
}

func node(n int) string { return "/dev/loop" + strconv.Itoa(n) }

// attached returns the open loop device that a file has; nil if it has none. While it is open
// the kernel does not take it apart.
func attached(path string) (*os.File, error) {
	file, all, err := devicesOf(path)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if device, err := open(name, file); device != nil || err != nil {
			return device, err
		}
	}
	return nil, nil
}

// open opens a loop device of a file. It returns nil if the device was taken apart since it was
// found, and may be of another file now.
func open(name string, file *unix.Stat_t) (*os.File, error) {
	device, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open a loop device: %w", err)
	}
	if !isOf(device, file) {
		_ = device.Close() // an error does not matter: nothing was written
		return nil, nil
	}
	return device, nil
}

// isOf reports whether a loop device is of a file.
func isOf(device *os.File, file *unix.Stat_t) bool {
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	return err == nil && info.Inode == file.Ino && info.Device == file.Dev
}

// devices returns the loop devices of a file.
func devices(path string) ([]string, error) {
	_, all, err := devicesOf(path)
	return all, err
}

// devicesOf returns also by what a loop device is known to be of the file.
func devicesOf(path string) (*unix.Stat_t, []string, error) {
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err != nil {
		return nil, nil, fmt.Errorf("look at the file of the volume: %w", err)
	}
	all, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, nil, fmt.Errorf("list loop devices: %w", err)
	}
	var out []string
	for _, dir := range all { // those that have a file
		device := "/dev/" + filepath.Base(filepath.Dir(dir))
		f, err := os.Open(device)
		if err != nil {
			continue // it was taken apart meanwhile
		}
		if isOf(f, &file) {
			out = append(out, device)
		}
		_ = f.Close() // it was only read
	}
	return &file, out, nil
}

// detach takes apart all loop devices of a file.
func detach(path string) error {
	return eachDevice(path, func(device string, fd int) error {
		if err := unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0); err != nil && !errors.Is(err, syscall.ENXIO) {
			return fmt.Errorf("take loop device %s apart: %w", device, err)
		}
		return nil
	})
}

// grow makes the loop devices of a file as large as it is.
func grow(path string) error {
	return eachDevice(path, func(device string, fd int) error {
		if err := unix.IoctlSetInt(fd, unix.LOOP_SET_CAPACITY, 0); err != nil {
			return fmt.Errorf("enlarge loop device %s: %w", device, err)
		}
		return nil
	})
}

// eachDevice opens the loop devices of a file, one after another, until do fails.
func eachDevice(path string, do func(device string, fd int) error) error {
	file, all, err := devicesOf(path)
	if err != nil {
		return err
	}
	for _, device := range all {
		f, err := open(device, file)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		err = do(device, int(f.Fd()))
		_ = f.Close() // what it was opened for is done
		if err != nil {
			return err
		}
	}
	return nil
}

// sizeOf returns the size of a block device in bytes.
func sizeOf(device string) (int64, error) {
	body, err := os.ReadFile(filepath.Join("/sys/class/block", filepath.Base(device), "size"))
	if err != nil {
		return 0, fmt.Errorf("tell the size of a device: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(body)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("tell the size of a device: %w", err)
	}
	return n * 512, nil
}
