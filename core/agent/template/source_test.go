// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
)

// cluster is a source with two variables and services.
func cluster() *source {
	s := newSource()
	s.put("nomad/jobs/web", map[string]string{"user": "u", "pw": "p", "a/b": "1", "a/c": "2"})
	s.answer(template.Query{Kind: template.KindVariable, Name: "x", Namespace: "other", Region: "eu"},
		template.Answer{Found: true, Variable: template.Variable{Items: map[string]string{"k": "far"}}})
	list := []template.VariableMeta{{Path: "nomad/jobs/a", Namespace: "default", ModifyIndex: 7}, {Path: "nomad/jobs/b", Namespace: "default"}}
	s.answer(template.Query{Kind: template.KindVariables, Name: "nomad/jobs"}, template.Answer{Variables: list})
	s.answer(template.Query{Kind: template.KindVariables}, template.Answer{Variables: list})
	var services []template.Service
	for i := range 9 {
		services = append(services, template.Service{NodeID: "n1", ID: fmt.Sprint("_", i), Name: "db", Address: fmt.Sprint("10.0.0.", i), Port: 5432 + i%2, Tags: []string{"z", fmt.Sprint("t", i%3)}})
	}
	s.answer(template.Query{Kind: template.KindService, Name: "db"}, template.Answer{Service: services})
	s.answer(template.Query{Kind: template.KindServices}, template.Answer{Services: []template.ServiceSummary{{Name: "db", Tags: []string{"z"}}, {Name: "web"}}})
	keys := []template.KeyPair{{Path: "app/"}, {Path: "app/color", Value: "red"}, {Path: "app/db/host", Value: "h"}}
	s.answer(template.Query{Kind: template.KindKey, Name: "app/color"}, template.Answer{Found: true, Keys: keys[1:2]})
	s.answer(template.Query{Kind: template.KindKeys, Name: "app/"}, template.Answer{Keys: keys})
	web := []template.HealthService{{ID: "1", Name: "web", Address: "10.0.0.1", Port: 80, Status: "passing", Tags: []string{"blue"}}, {ID: "2", Name: "web", Address: "10.0.0.2", Port: 81, Status: "critical"}}
	s.answer(template.Query{Kind: template.KindConsulService, Name: "web", Tag: "blue"}, template.Answer{Instances: web[:1]})
	s.answer(template.Query{Kind: template.KindConsulService, Name: "web", Unhealthy: true}, template.Answer{Instances: web})
	s.answer(template.Query{Kind: template.KindConsulServices}, template.Answer{Services: []template.ServiceSummary{{Name: "web", Tags: []string{"blue"}}}})
	return s
}

func TestVariablesAndServicesReadAsInTheReference(t *testing.T) {
	for data, want := range map[string]string{
		`{{ key "app/color" }} {{ keyOrDefault "app/none" "d" }} {{ keyExists "app/color" }}{{ keyExists "app/none" }}`:                                                                                  "red d truefalse",
		`{{ range ls "app" }}{{ .Key }}={{ .Value }};{{ end }}{{ range safeTree "app/" }}{{ .Path }} {{ .Key }}={{ . }};{{ end }}`:                                                                       "color=red;app/color color=red;app/db/host db/host=h;",
		`{{ range service "blue.web" }}{{ .Address }}:{{ .Port }} {{ end }}{{ range service "web|critical" }}{{ .ID }}{{ end }}{{ len (service "web" "any") }}`:                                          "10.0.0.1:80 22",
		`{{ (tree "app" | explode).db.host }}{{ tree "app" | explode | toJSON }}`:                                                                                                                        `h{"color":"red","db":{"host":"h"}}`,
		`{{ range $top, $pairs := tree "app" | byKey }}{{ $top }}:{{ range $pairs }}{{ .Key }}={{ .Value }},{{ end }}{{ end }}{{ (index (tree "app" | byKey) "db").host }}`:                              "color:=red,db:host=h,h",
		`{{ range $tag, $s := service "blue.web" | byTag }}{{ $tag }}={{ range $s }}{{ .Address }}{{ end }}{{ end }}{{ range $p, $s := service "web|critical" | byPort }}{{ $p }}={{ len $s }}{{ end }}`: "blue=10.0.0.181=1",
		`{{ range service "blue.web" }}{{ if .Tags.Contains "blue" }}{{ .ID }}{{ end }}{{ end }}{{ range nomadService "db" }}{{ if .Tags.Contains "t1" }}{{ .ID }}{{ end }}{{ end }}`:                    "1_1_4_7",
		`{{ range services }}{{ .Name }} {{ .Tags }}{{ end }}`:                                                                                                                                           "web [blue]",
		`{{ with nomadVar "nomad/jobs/web" }}{{ .user }}:{{ .pw }}{{ end }}`:                                                                                                                             "u:p",
		`{{ range $k, $v := nomadVar "nomad/jobs/web" }}{{ $k }}={{ $v }} {{ end }}`:                                                                                                                     "a/b=1 a/c=2 pw=p user=u ",
		`{{ with nomadVar "nomad/jobs/web" }}{{ range .Tuples }}{{ .Key }}={{ .Value }} {{ end }}{{ .Keys }}{{ .Values }}{{ .Metadata.Path }}{{ end }}`:                                                  "a/b=1 a/c=2 pw=p user=u [a/b a/c pw user][1 2 p u]nomad/jobs/web",
		`{{ with nomadVar "nomad/jobs/web" }}{{ range .Tuples }}{{ .K }}={{ .V }} {{ end }}{{ end }}{{ (nomadVar "nomad/jobs/web").user.Metadata.Path }}`:                                                "a/b=1 a/c=2 pw=p user=u nomad/jobs/web",
		`{{ range nomadService 1 "k" "db" }}{{ .Node }}={{ .NodeID }}{{ end }}`:                                                                                                                          "n1=n1",
		`{{ nomadVar "nomad/jobs/web" | toJSON }}`:                                                                       `{"a/b":"1","a/c":"2","pw":"p","user":"u"}`,
		`{{ (nomadVar "nomad/jobs/web" | explode).a | toYAML }}`:                                                         "b: \"1\"\nc: \"2\"",
		`{{ range $k, $p := nomadVar "nomad/jobs/web" | byKey }}{{ if eq $k "a" }}{{ $p.c }}{{ end }}{{ end }}`:          "2",
		`{{ (nomadVar "x@other.eu").k }}`:                                                                                "far",
		`{{ if nomadVarExists "nope" }}y{{ else }}n{{ end }}{{ nomadVarExists "nomad/jobs/web" }}`:                       "ntrue",
		`{{ range nomadVarList "nomad/jobs" }}{{ .Path }}@{{ .Namespace }}/{{ .ModifyIndex }} {{ . }};{{ end }}`:         "nomad/jobs/a@default/7 nomad/jobs/a;nomad/jobs/b@default/0 nomad/jobs/b;",
		`{{ len nomadVarList }}{{ len (nomadVarListSafe "nomad/jobs") }}{{ len (nomadVarList "none") }}`:                 "220",
		`{{ range nomadServices }}{{ .Name }} {{ .Tags }};{{ end }}`:                                                     "db [z];web [];",
		`{{ range nomadService "t1.db" }}{{ .Address }}:{{ .Port }} {{ end }}`:                                           "10.0.0.1:5433 10.0.0.4:5432 10.0.0.7:5433 ",
		`{{ range $tag, $s := nomadService "db" | byTag }}{{ $tag }}={{ len $s }} {{ end }}`:                             "t0=3 t1=3 t2=3 z=9 ",
		`{{ range $p, $s := nomadService "db" | byPort }}{{ $p }}={{ len $s }} {{ end }}`:                                "5432=5 5433=4 ",
		`{{ len (nomadService 2 "alloc" "db") }}{{ len (nomadService 20 "alloc" "db") }}{{ len (nomadService "none") }}`: "290",
		`{{ range nomadService "db" }}{{ .Tags | sprig_sortAlpha | join "," }}{{ break }}{{ end }}`:                      "t0,z",
		`{{ range nomadService "db" }}{{ if .Tags | contains "t1" }}{{ .ID }}{{ end }}{{ end }}`:                         "_1_4_7",
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			s := cluster()
			w.cfg.Source = s
			got, err := w.render(data)
			if err != nil || got != want {
				t.Errorf("%s\n got %q, %v\nwant %q", data, got, err, want)
			}
			a, _ := s.Fetch(t.Context(), template.Query{Kind: template.KindService, Name: "db"}, template.FetchOptions{})
			if a.Service[0].Tags[0] != "z" {
				t.Error("a template changed what others read")
			}
		})
	}
}

func TestAKeyKeepsItsInstancesWhenOthersGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := cluster()
		w.cfg.Source = s
		pick := func() map[string]string {
			got, err := w.render(`{{ range $k := loop 40 }}{{ $k }}={{ range nomadService 1 (print $k) "db" }}{{ .ID }}{{ end }} {{ end }}`)
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]string{}
			for f := range strings.FieldsSeq(got) {
				k, v, _ := strings.Cut(f, "=")
				out[k] = v
			}
			return out
		}
		before := pick()
		q := template.Query{Kind: template.KindService, Name: "db"}
		a, _ := s.Fetch(t.Context(), q, template.FetchOptions{})
		gone := a.Service[4].ID
		a.Service = append(slices.Clone(a.Service[:4]), a.Service[5:]...)
		s.answer(q, a)
		after, kinds, moved := pick(), map[string]bool{}, 0
		for k, id := range before {
			kinds[id] = true
			if after[k] != id {
				moved++
				if id != gone {
					t.Errorf("key %s moved from %s to %s though it stays", k, id, after[k])
				}
			}
		}
		if len(kinds) < 5 || moved == 0 && kinds[gone] {
			t.Errorf("40 keys use %d of 9 instances", len(kinds))
		}
	})
}

func TestWrongNamesAreErrorsAndNotWaitedFor(t *testing.T) {
	for _, data := range []string{
		`{{ nomadVar "" }}`, `{{ nomadVar "a b" }}`, `{{ nomadVar "a@b@c" }}`, `{{ nomadVarExists "a?" }}`, `{{ nomadVarList "a" "b" }}`,
		`{{ nomadService }}`, `{{ nomadService "a b" }}`, `{{ nomadService 1 "k" }}`, `{{ nomadService 0 "k" "db" }}`, `{{ nomadService "x" "k" "db" }}`, `{{ nomadService 1 2 "db" }}`, `{{ nomadService 5 }}`,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.Source = cluster()
			if got, err := w.render(data); err == nil {
				t.Errorf("%s gives %q", data, got)
			}
		})
	}
}

func TestAnEmptyListIsWaitedForOnlyIfAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := cluster()
		w.cfg.Source, w.cfg.Wait = s, &template.Bounds{}
		w.add(`{{ range nomadVarListSafe "new" }}{{ .Path }}{{ end }}`, func(m *model.Template) { m.ChangeMode = "noop" })
		r := w.open()
		defer r.Close()
		done := make(chan error, 1)
		go func() { done <- r.First(t.Context()) }()
		time.Sleep(time.Minute)
		if got := r.Waiting(); len(got) != 1 || got[0] != "nomad.var.list(new)" {
			t.Errorf("waits for %q", got)
		}
		s.answer(template.Query{Kind: template.KindVariables, Name: "new"}, template.Answer{Variables: []template.VariableMeta{{Path: "new/a"}}})
		if err := <-done; err != nil || w.read("local/out") != "new/a" {
			t.Errorf("%v %q", err, w.read("local/out"))
		}
	})
}
