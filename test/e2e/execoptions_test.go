// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestACommandInATaskRunsAsTheUserInTheDirectoryAndWithTheVariablesThatItNames(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.isolated("commands", "service", 1, "sleep 601"))
	id := a.Await("commands", "running", 1)[0].ID
	out, code := a.CLI("alloc", "exec", "-t=false", "-user", "root", "-dir", "/dev", "-env", "OF=me", "-env", "EXTRA=a=b", id, "/bin/sh", "-c", `echo $(id -u) $(pwd) $OF $EXTRA`)
	if code != 0 || strings.TrimSpace(out) != "0 /dev me a=b" {
		t.Errorf("with options it prints %q and ends with %d", out, code)
	}
	out, code = a.CLI("alloc", "exec", "-t=false", id, "/bin/sh", "-c", `echo $(id -u) $(pwd)`)
	if code != 0 || strings.TrimSpace(out) != "65534 /" {
		t.Errorf("without options it prints %q and ends with %d", out, code)
	}
	if out, code = a.CLI("alloc", "exec", "-t=false", "-user", "nobody-has-this-name", id, "id"); code == 0 || !strings.Contains(out, "does not exist on this machine") {
		t.Errorf("as a user that does not exist: %q, %d", out, code)
	}
}

func TestTheStatisticsOfAnAllocHaveFiguresOfEachOfItsProcesses(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.isolated("several", "service", 1, "sleep 601 & sleep 601; wait"))
	id := a.Await("several", "running", 1)[0].ID
	var stats struct {
		Tasks map[string]*struct {
			Pids map[string]*struct {
				MemoryStats struct{ RSS uint64 }
				CpuStats    struct{ Measured []string }
			}
		}
	}
	a.Eventually(time.Minute, "the shell and both sleeps have figures", func() bool {
		_, body := a.HTTPGet("/v1/client/allocation/" + id + "/stats")
		if err := json.Unmarshal([]byte(body), &stats); err != nil || stats.Tasks["t"] == nil {
			return false
		}
		measured := 0
		for _, p := range stats.Tasks["t"].Pids {
			if p.MemoryStats.RSS > 0 && len(p.CpuStats.Measured) > 0 {
				measured++
			}
		}
		return measured >= 3
	})
	for _, pid := range a.sleepers() {
		if stats.Tasks["t"].Pids[strconv.Itoa(pid)] == nil {
			t.Errorf("process %d of the task has no figures", pid)
		}
	}
}

func TestWhatATaskHasWrittenToStorageIsInItsStatistics(t *testing.T) {
	a := newAgent(t).withExec()
	a.Run(a.isolated("writer", "service", 1, "dd if=/dev/zero of=/local/file bs=65536 count=32 conv=fsync 2>/dev/null; sleep 601"))
	id := a.Await("writer", "running", 1)[0].ID
	var stats struct {
		ResourceUsage struct {
			Processes uint64
			IOStats   *struct {
				WrittenBytes uint64
				Measured     []string
			}
		}
	}
	a.Eventually(time.Minute, "the statistics show 2 MiB written, and processes", func() bool {
		_, body := a.HTTPGet("/v1/client/allocation/" + id + "/stats")
		if err := json.Unmarshal([]byte(body), &stats); err != nil {
			return false
		}
		if io := stats.ResourceUsage.IOStats; stats.ResourceUsage.Processes > 0 && io == nil {
			t.Skip("this machine's kernel does not count the input and output of cgroups")
		}
		return stats.ResourceUsage.Processes > 0 && stats.ResourceUsage.IOStats.WrittenBytes >= 2<<20
	})
	if out := a.Must("alloc", "status", "-stats", id); !strings.Contains(out, "IO Stats") || !strings.Contains(out, "Processes: ") {
		t.Errorf("alloc status -stats:\n%s", out)
	}
}
