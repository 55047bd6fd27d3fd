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
	all, err := devices(path)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		device, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return nil, fmt.Errorf("open a loop device: %w", err)
		}
		// Before it was open, it may have been taken apart, and be of another file now.
		if of, err := deviceOf(device, path); of || err != nil {
			if err != nil {
				_ = device.Close() // it was only read
				return nil, err
			}
			return device, nil
		}
		_ = device.Close() // of another file
	}
	return nil, nil
}

// deviceOf reports whether a loop device is of a file.
func deviceOf(device *os.File, path string) (bool, error) {
	var file unix.Stat_t
	if err := unix.Stat(path, &file); err != nil {
		return false, fmt.Errorf("look at the file of the volume: %w", err)
	}
	info, err := unix.IoctlLoopGetStatus64(int(device.Fd()))
	return err == nil && info.Inode == file.Ino && info.Device == file.Dev, nil
}

// devices returns the loop devices of a file.
func devices(path string) ([]string, error) {
	all, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, fmt.Errorf("list loop devices: %w", err)
	}
	var out []string
	for _, dir := range all { // those that have a file
		device := "/dev/" + filepath.Base(filepath.Dir(dir))
		f, err := os.Open(device)
		if err != nil {
			continue // it was taken apart meanwhile
		}
		of, err := deviceOf(f, path)
		_ = f.Close() // it was only read
		if err != nil {
			return nil, err
		}
		if of {
			out = append(out, device)
		}
	}
	return out, nil
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
	all, err := devices(path)
	if err != nil {
		return err
	}
	for _, device := range all {
		f, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("open a loop device: %w", err)
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
