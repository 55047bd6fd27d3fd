// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/artifact"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// needsLandlock skips where the kernel has none (landlock_create_ruleset is
// system call 444 everywhere).
func needsLandlock(t *testing.T) {
	t.Helper()
	if abi, _, errno := syscall.Syscall(444, 0, 0, 1); errno != 0 || abi < 1 {
		t.Skip("this kernel has no Landlock")
	}
}

// openDir is a folder that everybody may write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

// git writes a trace where its environment says: a write that file permissions
// allow and only Landlock prevents.
func TestAFetchCanWriteNowhereButToItsStagingFolder(t *testing.T) {
	needsLandlock(t)
	s := gitServer(t, repository(t, nil))
	for _, isolated := range []bool{true, false} {
		dir := openDir(t)
		t.Setenv("GIT_TRACE", filepath.Join(dir, "trace"))
		p := newPlace(t)
		p.cfg.Environment = []string{"GIT_TRACE"}
		p.cfg.DisableFilesystemIsolation = !isolated
		p.mustFetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git", RelativeDest: "local/repo"})
		_, err := os.Stat(filepath.Join(dir, "trace"))
		if written := err == nil; written == isolated {
			t.Errorf("isolated %v: a file outside was written: %v", isolated, written)
		}
	}
}

func TestFilesOfTheNodeAreSourcesOnlyWhereTheConfigurationSaysSo(t *testing.T) {
	dir := openDir(t)
	if err := os.MkdirAll(filepath.Join(dir, "tree", "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"f", "tree/sub/g"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlace(t)
	if err := p.fetch(&model.TaskArtifact{GetterSource: "file://" + dir + "/f"}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "filesystem_isolation_extra_paths") {
		t.Errorf("a file of the node: got %v, want it refused with what to set", err)
	}
	p.cfg.ExtraPaths = []string{"d:r:" + dir}
	p.mustFetch(&model.TaskArtifact{GetterSource: "file://" + dir + "/f"})
	p.mustFetch(&model.TaskArtifact{GetterSource: "file://" + dir + "/tree", GetterMode: "dir", RelativeDest: "local/copy"})
	p.wants("web/local/copy/sub/g", "web/local/f")
	if err := p.fetch(&model.TaskArtifact{GetterSource: "file://" + dir + "/../../etc/passwd"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a way out of the path: got %v, want it refused", err)
	}
	p.cfg.ExtraPaths = []string{"f:x:" + dir + "/f"}
	if err := p.fetch(&model.TaskArtifact{GetterSource: "file://" + dir + "/f"}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("a file that may not be read: got %v, want it refused", err)
	}
}

func TestFilesBelongToTheAgentOrWithChownToTheTasksUser(t *testing.T) {
	s := serve(t, map[string][]byte{"/a.tar": tarOf(t, regular("d/f", "x"))})
	if os.Geteuid() != 0 {
		p := newPlace(t)
		err := p.fetcher().Fetch(t.Context(), artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/a.tar", Chown: true, RelativeDest: "local/"}, TaskDir: p.task, User: "root"}, nil)
		if !errdefs.IsInvalidArgument(err) {
			t.Errorf("chown without being root: got %v, want it refused", err)
		}
		return
	}
	for _, c := range []struct {
		chown    bool
		user     string
		uid, gid uint32
	}{{false, "daemon", 0, 0}, {true, "", 0, 0}, {true, "65534:1", 65534, 1}} {
		p := newPlace(t)
		err := p.fetcher().Fetch(t.Context(), artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/a.tar", Chown: c.chown, RelativeDest: "local/new"}, TaskDir: p.task, User: c.user}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"new/d", "new/d/f"} {
			info, err := os.Lstat(filepath.Join(p.task, "local", name))
			if err != nil {
				t.Fatal(err)
			}
			if st := info.Sys().(*syscall.Stat_t); st.Uid != c.uid || st.Gid != c.gid {
				t.Errorf("chown %v for %q: %s belongs to %d:%d, want %d:%d", c.chown, c.user, name, st.Uid, st.Gid, c.uid, c.gid)
			}
		}
	}
	p := newPlace(t)
	err := p.fetcher().Fetch(t.Context(), artifact.Request{Artifact: &model.TaskArtifact{GetterSource: s.URL + "/a.tar", Chown: true, RelativeDest: "local/"}, TaskDir: p.task, User: "no-such-user-here"}, nil)
	if !errdefs.IsInvalidArgument(err) {
		t.Errorf("chown to an unknown user: got %v, want it refused", err)
	}
	p.wants()
}

// secrets may be a file system of their own, where nothing can be renamed to.
func TestAnArtifactReachesAnotherFileSystem(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	s := serve(t, map[string][]byte{"/a.tar": tarOf(t, regular("d/f", "x"), regular("g", "y")), "/f": []byte("f")})
	p := newPlace(t)
	secrets := filepath.Join(p.task, "secrets")
	if err := os.Mkdir(secrets, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", secrets, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	defer func() { _ = syscall.Unmount(secrets, syscall.MNT_DETACH) }()
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/a.tar", RelativeDest: "secrets/"})
	p.mustFetch(&model.TaskArtifact{GetterSource: s.URL + "/f", GetterMode: "file", RelativeDest: "secrets/g"})
	p.wants("web/secrets/d/f", "web/secrets/g")
	p.wantText("web/secrets/g", "f")
	big := serve(t, map[string][]byte{"/big": make([]byte, 3<<20)})
	err := p.fetch(&model.TaskArtifact{GetterSource: big.URL + "/big", RelativeDest: "secrets/new"})
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("a file larger than the file system: got %v", err)
	}
	p.wants("web/secrets/d/f", "web/secrets/g")
}

func TestTheChildOfARootAgentIsNobody(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give privileges up")
	}
	p := newPlace(t)
	p.cfg.Binary = script(t, `read x; id -u > out; echo '{"Done":true}'`)
	p.mustFetch(&model.TaskArtifact{GetterSource: "http://127.0.0.1/f", GetterMode: "file", RelativeDest: "local/uid"})
	p.wantText("web/local/uid", "65534\n")
}

// Where nobody cannot reach the alloc, the child stays root, but may not do more
// than any owner of a file.
func TestAChildThatStaysRootHasNoCapabilities(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give privileges up")
	}
	s := gitServer(t, repository(t, nil))
	dir := openDir(t)
	if err := os.Chown(dir, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GIT_TRACE", filepath.Join(dir, "trace"))
	p := newPlace(t)
	if err := os.Chmod(filepath.Dir(p.alloc), 0o700); err != nil {
		t.Fatal(err)
	}
	p.cfg.Environment, p.cfg.DisableFilesystemIsolation = []string{"GIT_TRACE"}, true
	p.mustFetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git", RelativeDest: "local/repo"})
	p.wantText("web/local/repo/sub/f", "two")
	if _, err := os.Stat(filepath.Join(dir, "trace")); err == nil {
		t.Error("a child of root has overridden the permissions of a folder")
	}
}
