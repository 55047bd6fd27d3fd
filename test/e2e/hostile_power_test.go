// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/internal/testkit"
)

// disk is a file system of its own for an agent's data, which can lose its power.
type disk struct {
	*agent
	image string
}

func newDisk(a *agent) *disk {
	a.t.Helper()
	if os.Geteuid() != 0 {
		a.t.Skip("a disk that loses its power needs root")
	}
	d := &disk{agent: a, image: filepath.Join(a.dir, "disk.img")}
	if err := os.MkdirAll(a.data, 0o755); err != nil {
		a.t.Fatal(err)
	}
	for _, line := range [][]string{{"truncate", "-s", "1G", d.image}, {"mkfs.ext4", "-q", "-F", d.image}} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			a.t.Skipf("no disk can be made: %s: %v\n%s", line[0], err, out)
		}
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, a.data).CombinedOutput(); err != nil {
		a.t.Skipf("no disk can be mounted: %v\n%s", err, out)
	}
	a.t.Cleanup(func() {
		a.killAll() // or the disk is in use
		d.unmount()
	})
	return d
}

func (d *disk) unmount() {
	d.t.Helper()
	if err := allocdir.Detach(d.dir); err != nil { // secrets are mounts
		d.t.Log(err)
	}
	_ = unix.Unmount(d.data, unix.MNT_DETACH) // it may have been detached with the secrets
}

// cut ends all writing to the disk at once: what was not synced is lost.
func (d *disk) cut() {
	d.t.Helper()
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN, linux/ext4.h
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH: the journal is not written either
	)
	root, err := os.Open(d.data)
	if err != nil {
		d.t.Fatal(err)
	}
	defer root.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		d.t.Skipf("the file system cannot lose its power: %v", errno)
	}
}

// again ends the agent and mounts the disk as a machine that comes up does.
func (d *disk) again() {
	d.t.Helper()
	d.killAll()
	<-d.done
	d.unmount()
	d.eventually(20*time.Second, "the disk is mounted again", func() bool {
		return exec.Command("mount", "-o", "loop", d.image, d.data).Run() == nil
	})
}

func TestHostilePowerCutsLoseNothingThatWasAcknowledged(t *testing.T) {
	if os.Getenv("DROVER_HOSTILE_ROUNDS") == "" {
		t.Skip("a disk of its own is cut off by `make hostile` only: beside all other tests the start after it was once not seen within 15 s")
	}
	d := newDisk(newAgent(t))
	d.start()
	draft, err := d.ParseJob(d.ctx(), &api.JobParseRequest{JobHCL: shell("NAME", "service", 0, "", "sleep 60"), Canonicalize: true})
	if err != nil {
		t.Fatal(err)
	}
	acked, lost := map[string]bool{}, 0
	rounds := min(testkit.HostileRounds(t, 2), 20)
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
					if _, err := d.RegisterJob(d.ctx(), &api.JobRegisterRequest{Job: job}); err != nil {
						return // the power is gone
					}
					mu.Lock()
					acked[id] = true
					mu.Unlock()
				}
			})
		}
		<-time.After(time.Duration(200+rand.IntN(600)) * time.Millisecond) // power goes at any moment
		d.cut()
		close(stop)
		d.killAll()
		work.Wait()
		d.again()
		d.start()
		jobs, _, err := d.Jobs(d.ctx(), nil)
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
	t.Logf("%d power cuts, %d acknowledged writes, %d lost", rounds, len(acked), lost)
}
