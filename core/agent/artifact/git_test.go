// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func needsGit(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repository makes a repository with a tag v1 and a newer commit, and change to
// add to it, and returns the folder that it lies in, as "r".
func repository(t *testing.T, change func(dir string)) string {
	t.Helper()
	needsGit(t)
	base := t.TempDir()
	dir := filepath.Join(base, "r")
	git(t, base, "init", "-q", "-b", "main", dir)
	write := func(text string) {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "sub", "f"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "one")
	git(t, dir, "tag", "v1")
	write("two")
	if change != nil {
		change(dir)
	}
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "two")
	return base
}

// gitServer serves repositories over http as a forge does.
func gitServer(t *testing.T, base string) *httptest.Server {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Skipf("git has no exec path: %v", err)
	}
	backend := filepath.Join(strings.TrimSpace(string(out)), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		t.Skip("git-http-backend is not installed")
	}
	s := httptest.NewServer(&cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + base, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}})
	t.Cleanup(s.Close)
	return s
}

func TestGitRepositoriesAreCloned(t *testing.T) {
	s := gitServer(t, repository(t, nil))
	for options, want := range map[string]string{"": "two", "ref=v1": "one", "ref=main&depth=1": "two"} {
		p := newPlace(t)
		o := map[string]string{}
		for kv := range strings.SplitSeq(options, "&") {
			if k, v, ok := strings.Cut(kv, "="); ok {
				o[k] = v
			}
		}
		p.mustFetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git", GetterOptions: o, RelativeDest: "local/repo"})
		p.wantText("web/local/repo/sub/f", want)
	}
	p := newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git//sub", RelativeDest: "local/sub"})
	p.wants("web/local/sub/f")
	err := p.fetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/none", RelativeDest: "local/none"})
	if !errdefs.IsUnavailable(err) {
		t.Errorf("a repository that is not there: got %v", err)
	}
	p.wants("web/local/sub/f")
}

func TestARepositoryThatPointsOutsideIsRefused(t *testing.T) {
	for name, change := range map[string]func(dir string){
		"link": func(dir string) {
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "x")); err != nil {
				t.Fatal(err)
			}
		},
		"link up": func(dir string) {
			if err := os.Symlink("../../secrets", filepath.Join(dir, "sub", "x")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s := gitServer(t, repository(t, change))
		p := newPlace(t)
		err := p.fetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git", RelativeDest: "local/repo"})
		if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "points outside") {
			t.Errorf("%s: got %v, want it refused for good", name, err)
		}
		p.wants()
		if name == "link" {
			p.cfg.DisableArtifactInspection = true
			p.mustFetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r/.git", RelativeDest: "local/repo"})
		}
	}
}

func TestGitIsGuardedAgainstRedirectsAndOddProtocols(t *testing.T) {
	needsGit(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254"+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	}))
	defer s.Close()
	p := newPlace(t)
	if err := p.fetch(&model.TaskArtifact{GetterSource: "git::" + s.URL + "/r"}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "169.254.169.254") {
		t.Errorf("a redirect of a repository to the metadata service: got %v, want it refused for good", err)
	}
	for _, source := range []string{"git::ext::sh -c touch% /tmp/x", "git::file://" + p.alloc, "git::" + p.alloc} {
		if err := p.fetch(&model.TaskArtifact{GetterSource: source}); err == nil {
			t.Errorf("%s was fetched", source)
		}
	}
	p.wants()
}

func TestAMissingProgramIsAnErrorThatSaysWhatToInstall(t *testing.T) {
	if _, err := exec.LookPath("hg"); err == nil {
		t.Skip("hg is installed")
	}
	p := newPlace(t)
	err := p.fetch(&model.TaskArtifact{GetterSource: "hg::http://127.0.0.1:1/r"})
	if !errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), "install") {
		t.Errorf("got %v", err)
	}
	p.wants()
}
