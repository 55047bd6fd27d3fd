// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Update gives a cgroup the memory limit and the share of the cpu of r; cores stay as they
// are. Drivers whose tasks have a cgroup can implement UpdateTask with it. It may be
// repeated, also after it was interrupted. A nil cgroup enforces nothing, so nothing is
// done. FailedPrecondition: the processes use more memory than r gives them, even after the
// kernel has dropped what it can; nothing is changed and no process is killed.
func (c *Cgroup) Update(r Resources) error {
	if c == nil {
		return nil
	}
	limit, low := r.MemoryMB<<20, int64(0)
	if r.MemoryMaxMB > r.MemoryMB {
		limit, low = r.MemoryMaxMB<<20, r.MemoryMB<<20
	}
	dir := c.Dirs["memory"]
	switch {
	case limit <= 0 || dir == "":
	case exists(dir, "memory.max"):
		if err := updateMemoryV2(dir, limit, low); err != nil {
			return err
		}
	default:
		if err := updateMemoryV1(dir, limit, low); err != nil {
			return err
		}
	}
	return updateShares(c.Dirs["cpu"], r.CPUMHz)
}

// updateMemoryV2 reclaims before it limits: a memory.max below the usage would have the
// OOM killer kill the task, whereas memory.high only reclaims and slows down.
func updateMemoryV2(dir string, limit, low int64) error {
	if err := setValue(dir, "memory.high", strconv.FormatInt(limit, 10)); err != nil {
		return err
	}
	used, err := readNumber(dir, "memory.current")
	if err == nil && used > limit {
		err = tooMuch(used, limit)
	}
	if err == nil {
		err = setValue(dir, "memory.max", strconv.FormatInt(limit, 10))
	}
	if err := errors.Join(err, setValue(dir, "memory.high", "max")); err != nil {
		return err
	}
	return setIfThere(dir, "memory.low", strconv.FormatInt(low, 10))
}

// updateMemoryV1 lets the kernel reclaim and decide: it refuses a limit below the usage.
// The limit of memory plus swap must never be lower than the limit of memory.
func updateMemoryV1(dir string, limit, low int64) error {
	const memory, both = "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"
	value := strconv.FormatInt(limit, 10)
	before, err := readNumber(dir, memory)
	if err != nil {
		return err
	}
	if limit > before {
		if err := setIfThere(dir, both, value); err != nil {
			return err
		}
		if err := setValue(dir, memory, value); err != nil {
			return err
		}
	} else {
		if err := setValue(dir, memory, value); err != nil {
			return inUse(dir, limit, err)
		}
		if err := setIfThere(dir, both, value); err != nil {
			return errors.Join(inUse(dir, limit, err), setValue(dir, memory, strconv.FormatInt(before, 10)))
		}
	}
	if low == 0 {
		low = -1 // no limit, as in a new cgroup
	}
	return setIfThere(dir, "memory.soft_limit_in_bytes", strconv.FormatInt(low, 10))
}

// inUse returns FailedPrecondition if the kernel has refused a limit because of the usage.
func inUse(dir string, limit int64, err error) error {
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	used, readErr := readNumber(dir, "memory.usage_in_bytes")
	return errors.Join(tooMuch(used, limit), readErr)
}

func tooMuch(used, limit int64) error {
	return errdefs.FailedPreconditionf("the task uses %d MiB of memory, which is more than the %d MiB that it would get", (used+1<<20-1)>>20, limit>>20)
}

// updateShares sets the share of the cpu, in MHz; 0 leaves it as it is.
func updateShares(dir string, mhz int64) error {
	if mhz <= 0 || dir == "" {
		return nil
	}
	shares := min(max(mhz, 2), 262144) // limits of the kernel
	if exists(dir, "cpu.weight") {
		return setValue(dir, "cpu.weight", strconv.FormatInt(1+(shares-2)*9999/262142, 10))
	}
	return setValue(dir, "cpu.shares", strconv.FormatInt(shares, 10))
}

func exists(dir, file string) bool {
	_, err := os.Stat(filepath.Join(dir, file))
	return err == nil
}

func setValue(dir, file, value string) error {
	err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
	if err != nil {
		return fmt.Errorf("change the task's cgroup: %s = %s: %w", file, value, err)
	}
	return nil
}

// setIfThere writes a file that not every kernel has.
func setIfThere(dir, file, value string) error {
	if err := setValue(dir, file, value); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func readNumber(dir, file string) (int64, error) {
	raw, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0, fmt.Errorf("read the task's cgroup: %w", err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read the task's cgroup: %s: %w", file, err)
	}
	return n, nil
}
