// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/test/e2e/harness"
)

// snapshotFiles returns the finished snapshots in a folder, the oldest first.
func snapshotFiles(dir string) []string {
	files, _ := filepath.Glob(filepath.Join(dir, "drover-[0-9]*.snap"))
	slices.Sort(files) // the times have equally many digits
	return files
}

// namespaced makes a namespace, by which a restored state is recognized.
func namespaced(a *agent, name string) {
	a.T.Helper()
	if err := a.ApplyNamespace(a.Context(), &model.Namespace{Name: name}); err != nil {
		a.T.Fatal(err)
	}
}

// restores restores a snapshot on an agent of a new cluster, which must have a namespace
// then. Backups have a key file of a server, too.
func (a *agent) restores(file, namespace string) {
	t := a.T
	t.Helper()
	other := &agent{harness.Another(t)}
	other.Start()
	key, err := os.ReadFile(filepath.Join(a.Data, "server", "keyring.pem"))
	if err == nil {
		err = os.WriteFile(filepath.Join(other.Data, "server", "keyring.former.pem"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	other.Must("operator", "snapshot", "restore", file)
	if out := other.Must("namespace", "list"); !strings.Contains(out, namespace) {
		t.Errorf("the restored cluster has the namespaces\n%s", out)
	}
}

func TestSnapshotsAreTakenAtIntervalsKeptInANumberAndSurviveAKilledAgent(t *testing.T) {
	a := newAgent(t)
	a.Start()
	namespaced(a, "kept")
	dir := t.TempDir()
	file := a.Write("snap.hcl", 0o600, fmt.Sprintf("nomad { address = %q }\nsnapshot {\n interval = \"1s\"\n retain = 3\n}\nlocal_storage { path = %q }\n", a.Addr, dir))
	foreign := filepath.Join(dir, "drover-notes.snap")
	if err := os.WriteFile(foreign, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func() *exec.Cmd {
		cmd := a.Command(t.Context(), "operator", "snapshot", "agent", file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	taker := start()
	newer := func() {
		t.Helper()
		seen := snapshotFiles(dir)
		a.Eventually(harness.Patience, "a newer snapshot is stored", func() bool {
			now := snapshotFiles(dir)
			return len(now) > 1 && (len(seen) == 0 || now[len(now)-2] > seen[len(seen)-1])
		})
	}
	for range 3 { // the agent is killed wherever it is, three times
		newer()
		if err := taker.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = taker.Wait() // it was killed
		for _, f := range snapshotFiles(dir) {
			a.Must("operator", "snapshot", "inspect", f)
		}
		taker = start()
	}
	out := a.Must("operator", "snapshot", "status", file)
	if !strings.Contains(out, dir) || !strings.Contains(out, "drover-1") {
		t.Errorf("the status is\n%s", out)
	}
	newer() // it is not so new that a signal ends it before it listens to signals
	if err := taker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := taker.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	all := snapshotFiles(dir)
	if len(all) == 0 || len(all) > 4 { // three, and one that the end kept from being removed
		t.Fatalf("the folder has %v", all)
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Errorf("a file with another name: %v", err)
	}
	a.restores(all[len(all)-1], "kept")
}

func TestTheLeaderStoresSnapshotsInABucketAndRetriesUntilItIsThere(t *testing.T) {
	harness.BuildS3(t)
	backend := s3mem.New()
	srv := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(srv.Close)
	a := newAgent(t)
	a.Configure(fmt.Sprintf(`snapshot {
  interval = "1s"
  retain = 2
  aws_storage {
    s3_bucket = "snaps"
    s3_endpoint = %q
    s3_region = "us-east-1"
    s3_force_path_style = true
    access_key_id = "key"
    secret_access_key = "secret"
  }
}`, srv.URL))
	a.Start()
	namespaced(a, "kept")
	a.Eventually(harness.Patience, "the status names the missing bucket", func() bool {
		out, code := a.CLI("operator", "snapshot", "status")
		return code == 1 && strings.Contains(out, `there is no bucket "snaps"`)
	})
	if !strings.Contains(a.Log(), "no snapshot was stored; it is tried again") {
		t.Error("the log does not say that no snapshot was stored")
	}
	if err := backend.CreateBucket("snaps"); err != nil {
		t.Fatal(err)
	}
	a.Eventually(harness.Patience, "two snapshots are kept, of more that were taken", func() bool {
		status, err := a.SnapshotSchedule(a.Context())
		return err == nil && len(status.Snapshots) == 2 && status.Removed > 0 && status.Failures == 0
	})
	if code, text := a.HTTPGet("/v1/metrics"); code != 200 || !strings.Contains(text, "nomad.snapshots.taken") {
		t.Errorf("the metrics are answered with %d, without those of snapshots", code)
	}
	a.Kill() // so that the newest stays
	list, err := backend.ListBucket("snaps", &gofakes3.Prefix{}, gofakes3.ListBucketPage{})
	if err != nil || len(list.Contents) == 0 {
		t.Fatalf("the bucket holds %+v, %v", list, err)
	}
	newest := list.Contents[len(list.Contents)-1].Key
	object, err := backend.GetObject("snaps", newest, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), filepath.Base(newest))
	f, err := os.Create(file)
	if err == nil {
		_, err = f.ReadFrom(object.Contents)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	a.restores(file, "kept")
}
