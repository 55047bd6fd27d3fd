// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package template_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAPipeInPlaceOfAFileIsRefusedAndHangsNothing(t *testing.T) {
	w := newWorld(t)
	if err := syscall.Mkfifo(filepath.Join(w.task.TaskDir, "local/pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.render(`{{ file "local/pipe" }}`); !errdefs.IsInvalidArgument(err) {
		t.Errorf("%v", err)
	}
	w.task.Running = true
	if err := w.renderTo("local/pipe"); err != nil || w.read("local/pipe") != "data" {
		t.Errorf("%v", err)
	}
}

func TestModeAndOwnerAreThoseOfTheTemplate(t *testing.T) {
	w := newWorld(t)
	one, two := 1, 2
	change := func(m *model.Template) { m.Perms = "0440" }
	if os.Geteuid() == 0 {
		change = func(m *model.Template) { m.Perms, m.Uid, m.Gid = "0440", &one, &two }
	}
	w.add("x", change)
	r := w.open()
	defer r.Close()
	w.first(r)
	info, err := os.Stat(filepath.Join(w.task.TaskDir, "local/out"))
	if err != nil || info.Mode().Perm() != 0o440 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && os.Geteuid() == 0 && (st.Uid != 1 || st.Gid != 2) {
		t.Errorf("owner %d:%d", st.Uid, st.Gid)
	}
	for _, perms := range []string{"9", "rw", "10000", "4755", "-1"} {
		w.task.Templates = []*model.Template{{EmbeddedTmpl: "x", DestPath: "local/out", Perms: perms}}
		if _, err := template.New(w.cfg).Open(t.Context(), w.task); !errdefs.IsInvalidArgument(err) {
			t.Errorf("perms %s: %v", perms, err)
		}
	}
}
