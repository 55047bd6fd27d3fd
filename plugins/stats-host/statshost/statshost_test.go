// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package statshost_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shirou/gopsutil/v4/disk"

	"github.com/drover-project/drover/plugins/stats-host/statshost"
	"github.com/drover-project/drover/sdk/errdefs"
	stats "github.com/drover-project/drover/sdk/stats/v1"
	"github.com/drover-project/drover/sdk/stats/v1/statstest"
)

func TestTheCollectorKeepsTheContract(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "stats-host")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, out)
	}
	statstest.Run(t, statstest.Options{
		New:    func(*testing.T) stats.Collector { return statshost.New() },
		Binary: binary, Name: "host", Interval: 100 * time.Millisecond,
	})
}

func sample(t *testing.T, c *statshost.Collector, config string) stats.Sample {
	t.Helper()
	if err := c.SetConfig(t.Context(), []byte(config)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	samples, err := c.Collect(ctx, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return <-samples
}

func TestWhatIsMeasuredIsWhatTheMachineHas(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("knows Linux's names")
	}
	s := sample(t, statshost.New(), `{}`)
	if s.CPU == nil || len(s.CPU.Cores) < runtime.NumCPU() {
		t.Errorf("cpu %+v", s.CPU)
	}
	if !slices.ContainsFunc(s.FileSystems, func(f stats.FileSystem) bool { return f.Mountpoint == "/" && f.Size > 0 && f.Type != "" }) {
		t.Errorf("no root file system in %+v", s.FileSystems)
	}
	if !slices.ContainsFunc(s.Networks, func(n stats.Network) bool { return n.Interface == "lo" }) {
		t.Errorf("no interface lo in %+v", s.Networks)
	}
	for _, f := range s.FileSystems {
		if f.Type == "proc" || f.Type == "sysfs" || f.Type == "cgroup2" {
			t.Errorf("a file system that shows nothing of the machine: %+v", f)
		}
	}
}

// proc is a machine of our own, as gopsutil reads one.
func proc(t *testing.T, mounts string) {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"1/mountinfo": mounts,
		"filesystems": "nodev\tproc\nnodev\ttmpfs\n\text4\n",
		"net/dev": "Inter-|   Receive  |  Transmit\n face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed\n" +
			"  eth0: 10 2 0 1 0 0 0 0 20 4 0 0 0 0 0 0\n veth12: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
		"diskstats": " 254 0 vda 5 0 16 7 3 0 8 9 1 11 16\n 7 0 loop0 1 0 2 0 0 0 0 0 0 0 0\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOST_PROC", root)
}

func points(s stats.Sample) []string {
	var out []string
	for _, f := range s.FileSystems {
		out = append(out, f.Mountpoint)
	}
	return out
}

func TestTheOperatorSaysWhatIsLeftOut(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads a /proc of its own")
	}
	tmp := t.TempDir()
	file := filepath.Join(tmp, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	proc(t, strings.Join([]string{
		"1 0 254:1 / / rw - ext4 /dev/vda rw", "2 1 0:5 / /proc rw - proc proc rw", "3 1 0:6 / " + tmp + " rw - tmpfs tmpfs rw",
		"4 1 254:1 / " + file + " rw - ext4 /dev/vda rw", "5 1 254:2 / /gone/away rw - ext4 /dev/vdb rw", "",
	}, "\n"))
	c := statshost.New()
	s := sample(t, c, `{"exclude_interfaces":["veth*"],"exclude_disks":["loop*"]}`)
	if got := points(s); !slices.Equal(got, []string{"/"}) {
		t.Errorf("measured the file systems %q", got)
	}
	eth0 := stats.Network{Interface: "eth0", ReceivedBytes: 10, ReceivedPackets: 2, ReceivedDrops: 1, SentBytes: 20, SentPackets: 4}
	if len(s.Networks) != 1 || s.Networks[0] != eth0 {
		t.Errorf("interfaces %+v", s.Networks)
	}
	vda := stats.Disk{Device: "vda", Reads: 5, Writes: 3, ReadBytes: 16 * 512, WrittenBytes: 8 * 512, ReadTime: 7e6, WriteTime: 9e6, BusyTime: 11e6, InFlight: 1}
	if len(s.Disks) != 1 || s.Disks[0] != vda {
		t.Errorf("disks %+v", s.Disks)
	}
	s = sample(t, c, `{"file_system_types":["tmpfs"],"exclude_mounts":["/"]}`)
	if got := points(s); !slices.Equal(got, []string{tmp}) || len(s.Networks) != 2 || len(s.Disks) != 2 {
		t.Errorf("measured the file systems %q, %d interfaces, %d disks", got, len(s.Networks), len(s.Disks))
	}
	if err := c.SetConfig(t.Context(), []byte(`{"exclude_disks":["[a"]}`)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "exclude_disks") {
		t.Errorf("a pattern that is not well formed: %v", err)
	}
}

func TestAFileSystemThatHangsHoldsNothingUpAndIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var asked atomic.Int64
		read := statshost.NewMounts([]disk.PartitionStat{
			{Device: "/dev/a", Mountpoint: "/", Fstype: "ext4"}, {Device: "/dev/b", Mountpoint: "/hung", Fstype: "ext4"},
		}, func(dir string) (*disk.UsageStat, error) {
			if dir == "/hung" {
				asked.Add(1)
				<-release
			}
			return &disk.UsageStat{Total: 10, Used: 1}, nil
		})
		for range 3 {
			var s stats.Sample
			if err := read(t.Context(), &s); err == nil || err.Error() != "does not answer: /hung" || len(s.FileSystems) != 1 {
				t.Errorf("read %+v: %v", s.FileSystems, err)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times while it hung", n)
		}
		close(release)
		synctest.Wait()
		var s stats.Sample
		if err := read(t.Context(), &s); err != nil || len(s.FileSystems) != 2 {
			t.Errorf("once it answers again: %+v, %v", s.FileSystems, err)
		}
	})
}
