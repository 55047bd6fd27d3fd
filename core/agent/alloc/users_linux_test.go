// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func nobody(int) bool { return false }

func assign(t *testing.T, u *alloc.Users, id, previous string) int {
	t.Helper()
	uid, err := u.Assign(id, previous)
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

func TestNoTwoAllocsHaveOneUserID(t *testing.T) {
	u := alloc.NewUsers(200, 204, func(uid int) bool { return uid == 202 })
	u.Hold("old", 201)
	if a, b, again := assign(t, u, "a", ""), assign(t, u, "b", ""), assign(t, u, "a", ""); a != 200 || b != 203 || again != a {
		t.Errorf("ids %d, %d and %d again", a, b, again)
	}
	assign(t, u, "c", "")
	if _, err := u.Assign("d", ""); !errdefs.IsResourceExhausted(err) {
		t.Errorf("all ids are used: %v", err)
	}
	u.Release("old")
	u.Release("never had one")
	if d := assign(t, u, "d", ""); d != 201 {
		t.Errorf("the id that was freed is 201, given is %d", d)
	}
	// Who takes over data takes over the id, which stays until neither has it.
	if e := assign(t, u, "e", "d"); e != 201 {
		t.Errorf("the id of the alloc before is 201, given is %d", e)
	}
	u.Release("d")
	if _, err := u.Assign("f", ""); !errdefs.IsResourceExhausted(err) {
		t.Errorf("the id that was taken over counts as free: %v", err)
	}
	u.Release("e")
	if f := assign(t, u, "f", ""); f != 201 {
		t.Errorf("given is %d", f)
	}
	// What an earlier agent has given counts also outside of the range.
	u.Hold("far", 999)
	if far := assign(t, u, "far", ""); far != 999 {
		t.Errorf("the id of before was 999, now %d", far)
	}
}

func TestAFreedUserIDIsNotGivenAgainAtOnce(t *testing.T) {
	u := alloc.NewUsers(200, 202, nobody)
	for i, want := range []int{200, 201, 202, 200} {
		id := fmt.Sprint(i)
		if got := assign(t, u, id, ""); got != want {
			t.Errorf("alloc %d has %d, want %d", i, got, want)
		}
		u.Release(id)
	}
}

func TestTheTasksOfAnAllocShareAUserIDThatOutlivesTheAgent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives folders away")
	}
	with(t, func(t *testing.T, b *bed) {
		b.driver.dynamic, b.driver.user, b.driver.isolation = true, "nobody", "chroot"
		b.cfg.Users = alloc.NewUsers(200001, 200002, nobody)
		named := newTask("named")
		named.User = "games"
		a := newAlloc(newTask("web"), newTask("side"), named)
		b.run(a)
		synctest.Wait()
		b.wants("named side web", "running")
		uids := map[string]int{}
		for _, c := range b.driver.configs {
			uids[c.Name] = c.DynamicUID
		}
		if uids["web"] != 200001 || uids["side"] != 200001 || uids["named"] != 0 {
			t.Errorf("the tasks run as %v", uids)
		}
		dir := filepath.Join(b.cfg.Root, a.ID)
		for folder, want := range map[string]string{"web": "200001 700", "web/secrets": "200001 700", "named": "5 700", "alloc": "0 777"} {
			if got := access(t, filepath.Join(dir, folder)); got != want {
				t.Errorf("%s is %s, want %s", folder, got, want)
			}
		}
		b.driver.end(t, "web", 0)
		synctest.Wait()
		b.restart(func() {
			b.cfg.Users = alloc.NewUsers(200001, 200002, nobody)
			b.cfg.Users.Hold(a.ID, b.store.record().UID)
		})
		synctest.Wait()
		if got := assign(t, b.cfg.Users, "other", ""); got != 200002 {
			t.Errorf("after the restart another alloc gets %d", got)
		}
		if rec := b.store.record(); rec.UID != 200001 {
			t.Errorf("the record says %d", rec.UID)
		}
	})
}

func TestWhatTheTasksOfAnAllocShareIsTheirsAloneWhereAllHaveItsUserID(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives folders away")
	}
	with(t, func(t *testing.T, b *bed) {
		b.driver.dynamic = true
		b.cfg.Users = alloc.NewUsers(200001, 200001, nobody)
		a := newAlloc(newTask("web"))
		b.run(a)
		synctest.Wait()
		b.wants("web", "running")
		if got := access(t, filepath.Join(b.cfg.Root, a.ID, "alloc")); got != "200001 700" {
			t.Errorf("the shared folder is %s", got)
		}
		if _, err := b.cfg.Users.Assign("other", ""); err == nil {
			t.Error("a second alloc has the id of the first")
		}
		b.r.Update(stopped(a))
		synctest.Wait()
		if err := b.r.Destroy(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := assign(t, b.cfg.Users, "other", ""); got != 200001 {
			t.Errorf("given after the first is gone: %d", got)
		}
	})
}

func TestAnAllocThatRanWithoutAUserIDKeepsItsUser(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.dynamic = true
		a := newAlloc(newTask("web"))
		a.Job.TaskGroups[0].Tasks[0].RestartPolicy = &model.RestartPolicy{Mode: "fail", Attempts: 3, Interval: time.Hour}
		b.run(a)
		synctest.Wait()
		b.restart(func() { b.cfg.Users = alloc.NewUsers(200001, 200002, nobody) })
		synctest.Wait()
		b.driver.end(t, "web", 1)
		time.Sleep(time.Minute) // of the bubble
		synctest.Wait()
		b.wants("web", "running")
		if n := len(b.driver.configs); n != 2 || b.driver.configs[1].DynamicUID != 0 {
			t.Errorf("%d starts, the last as %d", n, b.driver.configs[n-1].DynamicUID)
		}
		b.r.Close()
		// So does the alloc that takes over its data.
		next := newAlloc(newTask("web"))
		next.ID, next.PreviousAllocation = "a2", a.ID
		next.Job.TaskGroups[0].EphemeralDisk = &model.EphemeralDisk{Sticky: true}
		b.run(next)
		synctest.Wait()
		if last := b.driver.configs[len(b.driver.configs)-1]; last.AllocID != "a2" || last.DynamicUID != 0 {
			t.Errorf("alloc %s runs as %d", last.AllocID, last.DynamicUID)
		}
	})
}

func TestATaskForWhichNoUserIDIsLeftSaysSo(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.dynamic = true
		b.cfg.Users = alloc.NewUsers(200001, 200001, nobody)
		b.cfg.Users.Hold("other", 200001)
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("", "failed")
		b.hasEvent("web", "all user ids from 200001 to 200001 belong to allocs of this node")
		if len(b.driver.configs) != 0 {
			t.Error("the driver was asked")
		}
	})
}

func TestADriverThatCannotRunAsAnyUserGetsNoUserID(t *testing.T) {
	for _, unknown := range []bool{false, true} {
		with(t, func(t *testing.T, b *bed) {
			b.driver.dynamic, b.driver.unknown = unknown, unknown
			b.cfg.Users = alloc.NewUsers(200001, 200001, nobody)
			b.run(newAlloc(newTask("web")))
			synctest.Wait()
			b.wants("web", "running")
			if got := b.driver.configs[0].DynamicUID; got != 0 {
				t.Errorf("it got %d", got)
			}
		})
	}
}

func TestATaskIsToldThatItsDriverIsTooOldForUserIDs(t *testing.T) {
	with(t, func(t *testing.T, b *bed) {
		b.driver.user = "nobody"
		b.cfg.Users = alloc.NewUsers(200001, 200001, nobody)
		b.run(newAlloc(newTask("web")))
		synctest.Wait()
		b.wants("web", "running")
		b.hasEvent("web", "the task runs as nobody, as tasks of other allocs do; upgrade the driver's plugin")
	})
}
