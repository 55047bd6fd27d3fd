// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// access says who may enter a folder.
func access(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %o", info.Sys().(*syscall.Stat_t).Uid, info.Mode().Perm())
}

func TestATasksFoldersBelongToWhomItRunsAs(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives folders away")
	}
	chroot, image := driver.FSIsolationChroot, driver.FSIsolationImage
	for name, x := range map[string]struct {
		c               driver.Capabilities
		user            string
		folder, secrets string
	}{
		"the agent's own":              {driver.Capabilities{}, "", "0 755", "0 700"},
		"by name":                      {driver.Capabilities{}, "nobody", "65534 700", "65534 700"},
		"by id":                        {driver.Capabilities{FSIsolation: chroot, DefaultUser: "nobody"}, "1", "1 700", "1 700"},
		"the driver's":                 {driver.Capabilities{FSIsolation: chroot, DefaultUser: "nobody"}, "", "65534 700", "65534 700"},
		"root":                         {driver.Capabilities{FSIsolation: chroot, DefaultUser: "nobody"}, "root", "0 755", "0 700"},
		"one who does not exist":       {driver.Capabilities{}, "no-such-user", "0 755", "0 700"},
		"an image's":                   {driver.Capabilities{FSIsolation: image}, "", "0 700", "0 777"},
		"an image's, of the same name": {driver.Capabilities{FSIsolation: image}, "nobody", "0 700", "0 777"},
		"whom the driver alone knows":  {driver.Capabilities{FSIsolation: image, UnknownUser: true}, "nobody", "0 777", "0 777"},
	} {
		with(t, func(t *testing.T, b *bed) {
			b.driver.isolation, b.driver.user, b.driver.unknown = x.c.FSIsolation, x.c.DefaultUser, x.c.UnknownUser
			task := newTask("web")
			task.User = x.user
			a := newAlloc(task)
			b.run(a)
			synctest.Wait()
			b.wants("web", "running")
			web := filepath.Join(b.cfg.Root, a.ID, "web")
			if folder, secrets := access(t, web), access(t, filepath.Join(web, "secrets")); folder != x.folder || secrets != x.secrets {
				t.Errorf("%s: the folder is %s, want %s; the secrets are %s, want %s", name, folder, x.folder, secrets, x.secrets)
			}
		})
	}
}
