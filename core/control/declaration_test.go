// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package control_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/control"
	"github.com/drover-project/drover/core/control/deploy"
	"github.com/drover-project/drover/core/control/drain"
	"github.com/drover-project/drover/core/control/gc"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/control/periodic"
	"github.com/drover-project/drover/core/control/plugins"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// all are the controllers by the folder of their package.
var all = map[string]control.Controller{
	"deploy": deploy.Controller{}, "drain": drain.Controller{}, "gc": gc.Controller{},
	"keys": keys.Controller{}, "periodic": periodic.Controller{}, "plugins": plugins.Controller{},
}

// readsFor is the code, besides its own, that a controller has read the state for it.
var readsFor = map[string]string{"plugins": "../registry", "deploy": "../schedule/reconcile"}

func TestEveryControllerDeclaresExactlyWhatItUses(t *testing.T) {
	folders, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if all[filepath.Dir(f)] == nil && filepath.Dir(f) != "claims" { // it asks drivers, so it is no Controller
			t.Errorf("%s: the controller of this package is not in the list of this test", f)
		}
	}
	tables := map[string]string{} // method of View -> table
	for _, m := range regexp.MustCompile(`func \(v View\) (\w+)\(.*\n\treturn v\.of\(state\.(Table\w+)\)`).FindAllStringSubmatch(source(t, "."), -1) {
		tables[m[1]] = m[2]
	}
	names := map[string]bool{}
	for folder, c := range all {
		d := c.Declare()
		if d.Name == "" || d.Name != strings.ToLower(d.Name) || names[d.Name] || len(d.Wakes) == 0 {
			t.Errorf("%s: the declaration %+v has no name of its own in lower case, or nothing wakes it", folder, d)
		}
		names[d.Name] = true
		own := source(t, folder)
		code := own
		if more := readsFor[folder]; more != "" {
			code += source(t, more)
		}
		var used []string
		for _, call := range found(code, `\.(\w+)\(`) {
			if table := tables[call]; table != "" {
				used = append(used, table)
			}
		}
		declared := regexp.MustCompile(`Reads: +\[\]string\{.*\}`).FindString(own)
		same(t, folder+" reads", found(declared, `state\.(Table\w+)`), used)
		same(t, folder+" writes", found(own, `\(\*fsm\.(\w+)\)\(nil\)`), found(own, `&fsm\.(\w+)\{`))
	}
}

// source returns the code of a folder without its tests.
func source(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
	}
	return out.String()
}

// found returns what the first group of a pattern matches.
func found(text, pattern string) (out []string) {
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

func same(t *testing.T, what string, declared, used []string) {
	t.Helper()
	slices.Sort(declared)
	slices.Sort(used)
	if declared, used = slices.Compact(declared), slices.Compact(used); !slices.Equal(declared, used) {
		t.Errorf("%s: declared are %q, used are %q", what, declared, used)
	}
}

func TestAnUndeclaredReadOrWriteIsAnErrorAndChangesNothing(t *testing.T) {
	view := state.New().View()
	for what, c := range map[string]struct {
		decide func(control.Input, string) (control.Decision, error)
		names  string
	}{
		"a read": {func(in control.Input, _ string) (control.Decision, error) {
			in.View.NodeByID("n")
			return control.Decision{}, nil
		}, `"nodes"`},
		"a read of all": {func(in control.Input, _ string) (control.Decision, error) {
			for range in.View.Evals() {
				break
			}
			return control.Decision{}, nil
		}, `"evals"`},
		"a write": {func(control.Input, string) (control.Decision, error) {
			return control.Decision{Commands: []fsm.Command{namespace("made"), &fsm.DeleteNamespaces{Names: []string{"default"}}}}, nil
		}, "DeleteNamespaces"},
		"a write in a batch": {func(control.Input, string) (control.Decision, error) {
			return control.Decision{Commands: []fsm.Command{&fsm.Batch{Commands: []fsm.Command{namespace("made")}}}}, nil
		}, "Batch"},
	} {
		t.Run(what, func(t *testing.T) {
			d, err := control.Decide(&fake{decide: c.decide}, view, time.Now(), nil, "key")
			if !errdefs.IsInternal(err) || !strings.Contains(err.Error(), c.names) || !strings.Contains(err.Error(), `"fake"`) || len(d.Commands) > 0 {
				t.Errorf("%+v, %v", d, err)
			}
		})
	}
}

func namespace(name string) fsm.Command {
	return &fsm.UpsertNamespaces{Namespaces: []*model.Namespace{{Name: name}}}
}

// nosy asks for what it does not declare when it names its keys.
type nosy struct{ fake }

func (*nosy) All(v control.View) []string {
	v.Nodes()
	return nil
}

func TestAControllerThatBreaksItsDeclarationFailsAloneAndIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := state.New()
		l := &log{machine: fsm.New(store, hclog.NewNullLogger()), index: 10}
		s := control.NewLoops(store, l, func() string { return "id" }, hclog.NewNullLogger())
		ctx, cancel := context.WithCancel(t.Context())
		bad := &fake{decide: func(control.Input, string) (control.Decision, error) {
			return control.Decision{Commands: []fsm.Command{&fsm.DeleteNamespaces{Names: []string{"default"}}}}, nil
		}}
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx, bad, &nosy{}) }()
		synctest.Wait()
		if st := s.Stats()["fake"]; st.Failures != 1 || st.Commands != 0 || !strings.Contains(st.LastError, "does not declare") {
			t.Errorf("stats %+v", st)
		}
		if l.index != 10 {
			t.Errorf("%d entries were proposed", l.index-10)
		}
		if _, err := control.All(&nosy{}, store.View()); !errdefs.IsInternal(err) || !strings.Contains(err.Error(), `"nodes"`) {
			t.Errorf("naming its keys: %v", err)
		}
		cancel()
		<-done
	})
}
