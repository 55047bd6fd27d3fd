// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func (w *world) renderTo(dest string) error {
	w.t.Helper()
	task := w.task
	m := tmpl("data")
	m.DestPath = dest
	task.Templates = []*model.Template{m}
	r, err := template.New(w.cfg).Open(w.t.Context(), task)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.First(w.t.Context())
}

func TestFilesGoWhereTheJobFileSays(t *testing.T) {
	for dest, at := range map[string]string{
		"local/a":                      "web/local/a",
		"local/deep/er/a":              "web/local/deep/er/a",
		"${NOMAD_TASK_DIR}/a":          "web/local/a",
		"${env.NOMAD_SECRETS_DIR}/a":   "web/secrets/a",
		`${env["NOMAD_ALLOC_DIR"]}/a`:  "alloc/a",
		"${NOMAD_SECRETS_DIR}/${NAME}": "web/secrets/web",
		"../alloc/a":                   "alloc/a",
		"alloc/a":                      "alloc/a",
		"/alloc/data/a":                "alloc/data/a",
		"/local/a":                     "web/local/a",
		"/etc/a":                       "web/etc/a", // as the task sees it
		"${NOMAD_LOCAL_DIR}/a":         "web/${NOMAD_LOCAL_DIR}/a",
		"local/${x":                    "web/local/${x",
	} {
		w := newWorld(t)
		err := w.renderTo(dest)
		raw, readErr := os.ReadFile(filepath.Join(filepath.Dir(w.task.TaskDir), at))
		if err != nil || readErr != nil || string(raw) != "data" {
			t.Errorf("%s: %v, %v", dest, err, readErr)
		}
	}
	w := newWorld(t)
	if err := w.renderTo(filepath.Join(w.task.AllocDir, "abs")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(w.task.AllocDir, "abs")); err != nil {
		t.Error(err)
	}
}

func TestNoFileIsWrittenOutside(t *testing.T) {
	outside := t.TempDir()
	for _, dest := range []string{"../../x", "../other/x", "local/../../x", "${OUT}/x", "/../../x", "..", ".", "local/..", "../alloc/../x", "local/up/x", "local/abs/x", "local/loop/x"} {
		w := newWorld(t)
		w.task.Env["OUT"] = "../../.."
		for name, target := range map[string]string{"up": "../../..", "abs": outside, "loop": "loop"} {
			if err := os.Symlink(target, filepath.Join(w.task.TaskDir, "local", name)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.renderTo(dest); err == nil {
			t.Errorf("%s: no error", dest)
		}
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("written outside: %v", left)
	}
}

func TestALinkInPlaceOfTheFileIsReplacedNotFollowed(t *testing.T) {
	w := newWorld(t)
	outside := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(outside, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(w.task.TaskDir, "local/out")); err != nil {
		t.Fatal(err)
	}
	if err := w.renderTo("local/out"); err != nil || w.read("local/out") != "data" {
		t.Errorf("%v", err)
	}
	if raw, _ := os.ReadFile(outside); string(raw) != "old" {
		t.Errorf("followed: %q", raw)
	}
}

func TestATemplateWhoseDestinationIsAFolderSaysWhatToDoAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	before, err := os.ReadDir(w.task.TaskDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, dest := range []string{"local", "local/"} {
		if err := w.renderTo(dest); err == nil || !strings.HasSuffix(err.Error(), `write the template's file "local": there is a folder of that name; add the name of a file to the path`) {
			t.Errorf("%s: %v", dest, err)
		}
	}
	if after, err := os.ReadDir(w.task.TaskDir); err != nil || len(after) != len(before) {
		t.Errorf("the folder has %v, %v; before %v", after, err, before)
	}
}

func TestNoFileIsReadOutside(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("hidden"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	if err := os.Symlink(outside, filepath.Join(w.task.TaskDir, "local/link")); err != nil {
		t.Fatal(err)
	}
	w.cfg.FilePoll = time.Hour
	for _, path := range []string{outside, "../../../secret", "local/link", "/etc/passwd", "../../" + filepath.Base(filepath.Dir(outside)) + "/secret"} {
		m := tmpl("")
		m.SourcePath, m.ErrMissingKey = path, true
		w.task.Templates = []*model.Template{m}
		if _, err := template.New(w.cfg).Open(t.Context(), w.task); err == nil {
			t.Errorf("source %s: no error", path)
		}
		m = tmpl(`{{ file "` + path + `" }}`)
		m.ErrMissingKey = true
		w.task.Templates = []*model.Template{m}
		r, err := template.New(w.cfg).Open(t.Context(), w.task)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.First(t.Context()); err == nil {
			t.Errorf("file %s: no error", path)
		}
		r.Close()
	}
	for _, path := range []string{"/etc/passwd", outside, "../../x"} {
		if _, err := w.render(`{{ file "` + path + `" }}`); !errdefs.IsPermissionDenied(err) {
			t.Errorf("file %s is waited for: %v", path, err)
		}
	}
	w.write("local/in", "in")
	if got, err := w.render(`{{ file "/local/in" }}{{ file "local/in" }}{{ file "` + w.task.TaskDir + `/local/in" }}`); err != nil || got != "ininin" {
		t.Errorf("%q, %v", got, err)
	}
	w.cfg.DisableSandbox = true
	if got, err := w.render(`{{ file "` + outside + `" }}`); err != nil || got != "hidden" {
		t.Errorf("without the sandbox: %q, %v", got, err)
	}
}

func TestNothingIsLeftBesideTheFile(t *testing.T) {
	w := newWorld(t)
	if err := os.Mkdir(filepath.Join(w.task.TaskDir, "local/dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := w.renderTo("local/dir"); err == nil {
		t.Error("a folder was replaced")
	}
	if err := w.renderTo("local/ok"); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(filepath.Join(w.task.TaskDir, "local"))
	if err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}

func TestTheSourceOfATemplateIsReadFromTheTask(t *testing.T) {
	w := newWorld(t)
	w.write("local/in.tpl", "{{ env \"NAME\" }}\n{{ oops }}")
	m := tmpl("")
	m.SourcePath = "${NOMAD_TASK_DIR}/in.tpl"
	w.task.Templates = []*model.Template{m}
	_, err := template.New(w.cfg).Open(t.Context(), w.task)
	if err == nil || !strings.Contains(err.Error(), `in.tpl:2: function "oops" not defined`) {
		t.Errorf("%v", err)
	}
	w.write("local/in.tpl", "{{ env \"NAME\" }}")
	r := w.open()
	defer r.Close()
	w.first(r)
	if w.read("local/out") != "web" {
		t.Errorf("%q", w.read("local/out"))
	}
}

func TestEnvironmentFilesAreRead(t *testing.T) {
	w := newWorld(t)
	w.add(strings.Join([]string{
		"# comment", "", "A=1", " export B = two words  ", `C="a\nb # not" # comment`, `D='$x "q" \n'`, "E=", "F=a#b", "G=x y # c", `H=pre"quoted"post`, "I=a=b", "J=http://x/#f",
	}, "\n"), func(m *model.Template) { m.Envvars = true })
	r := w.open()
	defer r.Close()
	w.first(r)
	want := map[string]string{"A": "1", "B": "two words", "C": "a\nb # not", "D": `$x "q" \n`, "E": "", "F": "a#b", "G": "x y", "H": "prequotedpost", "I": "a=b", "J": "http://x/#f"}
	got := r.Env().Plain
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s = %q, want %q", k, got[k], v)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"novalue", "=x", "a b=c", `A="x`, "A='x", `A="\q"`} {
		w := newWorld(t)
		w.add("OK=1\n"+text, func(m *model.Template) { m.Envvars = true })
		r := w.open()
		if err := r.First(t.Context()); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("%q: %v", text, err)
		}
		r.Close()
	}
}

func TestVariablesOfTemplatesInTheFolderForSecretsAreSecrets(t *testing.T) {
	w := newWorld(t)
	env := func(to, text string) {
		w.add(text, func(m *model.Template) { m.Envvars, m.DestPath = true, to })
	}
	env("local/plain.env", "A=plain\nB=plain")
	env("secrets/db.env", "B=secret\nC=secret")
	env("${NOMAD_SECRETS_DIR}/deep/er.env", "D=secret")
	env("/secrets/absolute.env", "E=secret")
	env("local/../secrets/round.env", "F=secret")
	env("secrets/../local/out.env", "G=plain")
	env("secretsnot/x.env", "H=plain")
	env("local/later.env", "C=plain") // a later template wins
	r := w.open()
	defer r.Close()
	w.first(r)
	got := r.Env()
	for name, want := range map[string]string{"A": "plain", "B": "secret", "C": "plain", "D": "secret", "E": "secret", "F": "secret", "G": "plain", "H": "plain"} {
		plain, isPlain := got.Plain[name]
		secret, isSecret := got.Secret[name]
		if isPlain == isSecret || plain+secret != want || isSecret != (want == "secret") {
			t.Errorf("%s: plain %q, secret %q, want it %s", name, plain, secret, want)
		}
	}
}
