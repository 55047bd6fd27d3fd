// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/test/e2e/harness"
)

// disk is a file system for an agent's data whose power can be cut.
type disk struct {
	*agent
	image  string
	device string // the loop device of the image; empty while it is not attached
}

func newDisk(a *agent) *disk {
	a.T.Helper()
	if os.Geteuid() != 0 {
		a.T.Skip("a disk that loses its power needs root")
	}
	d := &disk{agent: a, image: filepath.Join(a.Dir, "disk.img")}
	if err := os.MkdirAll(a.Data, 0o755); err != nil {
		a.T.Fatal(err)
	}
	for _, line := range [][]string{{"truncate", "-s", "1G", d.image}, {"mkfs.ext4", "-q", "-F", d.image}} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			a.T.Skipf("no disk can be made: %s: %v\n%s", line[0], err, out)
		}
	}
	a.T.Cleanup(func() {
		a.KillAll() // otherwise the disk is busy
		d.unplug()
	})
	if err := d.plug(); err != nil {
		a.T.Skipf("no disk can be mounted: %v", err)
	}
	return d
}

// plug mounts the disk.
func (d *disk) plug() error {
	out, err := exec.Command("losetup", "--find", "--show", d.image).Output()
	if err != nil {
		return fmt.Errorf("losetup: %w", err)
	}
	d.device = strings.TrimSpace(string(out))
	if out, err := exec.Command("mount", d.device, d.Data).CombinedOutput(); err != nil {
		return fmt.Errorf("mount: %w: %s", err, out)
	}
	return nil
}

// unplug unmounts the disk and removes its loop device. The device must be removed,
// because a process that still uses the file system (a killed one that has not ended
// yet, or a mount namespace of another test) keeps it alive, and mounting the device
// again would return the same dead file system.
func (d *disk) unplug() {
	d.T.Helper()
	if err := mounts.Detach(filepath.Join(d.Data, "alloc")); err != nil { // secrets are mounts
		d.T.Log(err)
	}
	d.Eventually(harness.Patience, "the disk is unmounted", func() bool {
		err := unix.Unmount(d.Data, 0)
		return err == nil || errors.Is(err, unix.EINVAL) // it is not mounted
	})
	if d.device != "" {
		if out, err := exec.Command("losetup", "--detach", d.device).CombinedOutput(); err != nil {
			d.T.Fatalf("losetup --detach %s: %v: %s", d.device, err, out)
		}
		d.device = ""
	}
}

// cut stops all writing to the disk immediately: unsynced data is lost.
func (d *disk) cut() {
	d.T.Helper()
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN, linux/ext4.h
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH: the journal is not written either
	)
	root, err := os.Open(d.Data)
	if err != nil {
		d.T.Fatal(err)
	}
	defer root.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		d.T.Skipf("the file system cannot lose its power: %v", errno)
	}
}

// again ends the agent and mounts the disk again, as after a reboot.
func (d *disk) again() {
	d.T.Helper()
	d.KillAll()
	<-d.Done
	d.unplug()
	if err := d.plug(); err != nil {
		d.T.Fatal(err)
	}
}

func TestHostilePowerCutsLoseNothingThatWasAcknowledged(t *testing.T) {
	d := newDisk(newAgent(t))
	d.start()
	draft, err := d.ParseJob(d.Context(), &api.JobParseRequest{JobHCL: harness.Shell("NAME", "service", 0, "", "sleep 60"), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	acked, lost, slowest := map[string]bool{}, 0, time.Duration(0)
	rounds := testkit.HostileRounds(t, 2)
	for round := range rounds {
		var (
			mu   sync.Mutex
			work sync.WaitGroup
			stop = make(chan struct{})
		)
		for w := range 8 {
			work.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					id := fmt.Sprintf("job-%d-%d-%d", round, w, i)
					job := json.RawMessage(bytes.ReplaceAll(draft, []byte("NAME"), []byte(id)))
					if _, err := d.RegisterJob(d.Context(), &api.JobRegisterRequest{Job: job}); err != nil {
						return // the power is off
					}
					mu.Lock()
					acked[id] = true
					mu.Unlock()
				}
			})
		}
		<-time.After(time.Duration(200+rand.IntN(600)) * time.Millisecond) // cut the power at a random moment
		d.cut()
		close(stop)
		d.KillAll()
		work.Wait()
		d.again()
		begun := time.Now()
		d.start()
		slowest = max(slowest, time.Since(begun))
		jobs, _, err := d.Jobs(d.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		have := map[string]bool{}
		for _, j := range jobs {
			have[j.ID] = true
		}
		for id := range acked {
			if !have[id] {
				lost++
				t.Errorf("round %d: %s was acknowledged and is lost", round, id)
			}
		}
	}
	t.Logf("%d power cuts, %d acknowledged writes, %d lost; the slowest start took %s", rounds, len(acked), lost, slowest)
}
