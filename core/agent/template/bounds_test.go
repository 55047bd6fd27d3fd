// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/template"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

const mib = 1 << 20

// hostile are templates that would take all time or memory, each with words of
// the error that it must end with and what it may allocate in all, in MiB.
var hostile = map[string]struct {
	data, want string
	mib        uint64
}{
	"a loop over a number without a body":  {"{{ range 1000000000000 }}{{ end }}", "steps", 60},
	"loop over a million millions":         {"{{ range loop 1000000000000 }}x{{ end }}", "too far", 20},
	"loops within loops":                   {"{{ range loop 1000000 }}{{ range loop 1000000 }}{{ end }}{{ end }}", "", 60},
	"a loop that only continues":           {"{{ range 1000000000000 }}{{ continue }}{{ end }}", "steps", 60},
	"recursion without end":                {`{{ define "a" }}{{ template "a" }}{{ end }}{{ template "a" }}`, "deep", 60},
	"recursion that doubles":               {`{{ define "a" }}{{ if lt (len .) 900 }}{{ template "a" (print . "x") }}{{ template "a" (print . "x") }}{{ end }}{{ end }}{{ template "a" "x" }}`, "", 60},
	"recursion through a function":         {`{{ define "a" }}{{ executeTemplate "a" }}{{ end }}{{ template "a" }}`, "deep", 200},
	"gigabytes of output":                  {`{{ range loop 1000000 }}{{ sprig_repeat 10000 "x" }}{{ end }}`, "bytes", 60},
	"gigabytes at once":                    {`{{ sprig_repeat 10000000000 "x" }}`, "bytes", 20},
	"a width of gigabytes":                 {`{{ printf "%999999d%999999d%999999d" 1 2 3 }}`, "bytes", 20},
	"a starred width":                      {`{{ printf "%*d%*d" 999999 1 999999 1 }}`, "bytes", 20},
	"an argument again and again":          {`{{ $x := sprig_repeat 100000 "x" }}{{ printf (sprig_repeat 1000 "%[1]s") $x }}`, "bytes", 20},
	"a text that doubles":                  {`{{ $x := "x" }}{{ range loop 60 }}{{ $x = print $x $x }}{{ end }}`, "bytes", 60},
	"a list that doubles":                  {`{{ $x := sprig_list 1 }}{{ range loop 60 }}{{ $x = sprig_concat $x $x }}{{ end }}`, "bytes", 200},
	"a list of itself twice, again":        {`{{ $x := sprig_list 1 }}{{ range loop 60 }}{{ $x = sprig_list $x $x }}{{ end }}{{ $x }}`, "bytes", 60},
	"a map that contains itself":           {`{{ $d := sprig_dict }}{{ $e := sprig_dict "d" $d }}{{ $x := sprig_set $d "e" $e }}{{ $d }}`, "contains itself", 20},
	"a map that grows behind a list":       {`{{ $l := sprig_dict }}{{ $x := sprig_list $l $l }}{{ range loop 14 }}{{ $x = sprig_list $x $x }}{{ end }}{{ $y := sprig_set $l "k" (sprig_repeat 100000 "x") }}{{ $x }}`, "bytes", 60},
	"a map that grows behind JSON":         {`{{ $l := sprig_dict }}{{ $x := sprig_list $l $l }}{{ range loop 14 }}{{ $x = sprig_list $x $x }}{{ end }}{{ $y := sprig_set $l "k" (sprig_repeat 100000 "x") }}{{ toJSON $x }}`, "bytes", 60},
	"values kept on the way down":          {`{{ define "a" }}{{ $x := sprig_repeat 1000000 "x" }}{{ template "a" }}{{ end }}{{ template "a" }}`, "bytes", 200},
	"values kept in a scratch":             {`{{ range $i := loop 1000000 }}{{ scratch.MapSet "m" (print $i) (sprig_repeat 10000 "x") }}{{ end }}`, "bytes", 200},
	"a scratch of itself":                  {`{{ scratch.Set "s" scratch }}{{ scratch.Get "s" }}{{ range loop 60 }}{{ scratch.Set "l" (sprig_list (scratch.Get "l") (scratch.Get "l")) }}{{ end }}{{ scratch.Get "l" }}`, "bytes", 60},
	"indenting each line far":              {`{{ sprig_repeat 100000 "\n" | indent 100000 }}`, "bytes", 20},
	"replacing each letter by much":        {`{{ replaceAll "" (sprig_repeat 100000 "y") (sprig_repeat 100000 "x") }}`, "bytes", 20},
	"replacing by groups of a pattern":     {`{{ regexReplaceAll ".*" (sprig_repeat 10000 "$0") (sprig_repeat 10000 "x") }}`, "bytes", 60},
	"a pattern that is too large":          {`{{ regexMatch "(((a{30}){30}){1,30}b){5}" (sprig_repeat 1000000 "a") }}`, "", 60},
	"splitting into letters":               {`{{ split "" (sprig_repeat 1000000 "x") | join "yyyyyyyy" }}`, "", 60},
	"counting to no end":                   {`{{ sprig_until 10000000000 }}`, "elements", 20},
	"counting over the largest number":     {`{{ sprig_untilStep 9223372036854775800 9223372036854775807 100 }}`, "elements", 20},
	"a sequence to no end":                 {`{{ sprig_seq 1 1 10000000000 }}`, "elements", 20},
	"random bytes without end":             {`{{ sprig_randBytes 10000000000 }}`, "bytes", 20},
	"numbers with ever more digits":        {"{{ sprig_mulf" + strings.Repeat(" 1e308", 10000) + " }}", "at most 64", 60},
	"comparing all with all":               {`{{ sprig_uniq (loop 100000) }}`, "compare", 40},
	"JSON that is deep":                    {`{{ parseJSON (sprig_repeat 100000 "[") }}`, "", 60},
	"YAML that refers to itself":           {`{{ parseYAML "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: &d [*c, *c]\ne: &e [*d, *d]\nf: &f [*e, *e]\ng: &g [*f, *f]\nh: &h [*g, *g]\ni: &i [*h, *h]\nj: &j [*i, *i]\nk: &k [*j, *j]\nl: [*k, *k, *k, *k, *k, *k]\n" | toJSON | len | sprig_repeat 100000000 }}`, "", 60},
	"a text of parentheses":                {"{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}", "nested", 60},
	"a text of blocks":                     {strings.Repeat("{{ if 1 }}", 40000) + strings.Repeat("{{ end }}", 40000), "nested", 20},
	"a text of else ifs":                   {"{{ if 1 }}" + strings.Repeat("{{ else if 1 }}", 40000) + "{{ end }}", "nested", 20},
	"a text of too many bytes":             {strings.Repeat("x", 2*mib), "at most", 20},
	"all of it under a name of the checks": {`{{ define "drover__checks" }}{{ end }}{{ range 1000000000000 }}{{ end }}`, "steps", 60},
	"a loop that calls the checks' leave":  {`{{ define "a" }}{{ drover__end }}{{ template "a" }}{{ end }}{{ template "a" }}`, "kept for checks", 20},
	"a loop, with its place":               {"a\n {{ range 1000000000000 }}{{ end }}", "local/out:2:10", 60},
	"much output, with its place":          {`{{ sprig_repeat 1000000 "x" }}{{ sprig_repeat 1000000 "x" }}`, `template "local/out"`, 20},
}

func TestHostileTemplatesEndWithAnErrorAndBoundedMemory(t *testing.T) {
	for name, h := range hostile {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.cfg.MaxBytes = mib
			w.cfg.MaxSteps = 100_000
			w.cfg.MaxDuration = time.Hour // nothing of this needs the clock to end
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			out, err := w.render(h.data)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), h.want) {
				t.Errorf("%.200v, %.100q; want an error with %q", err, out, h.want)
			}
			if c := errdefs.ClassOf(err); c != errdefs.ResourceExhausted && c != errdefs.InvalidArgument {
				t.Errorf("class %v of %.200v", c, err)
			}
			if got := (after.TotalAlloc - before.TotalAlloc) / mib; got > h.mib {
				t.Errorf("allocated %d MiB, want at most %d", got, h.mib)
			}
		})
	}
}

func TestATemplateEndsWithItsTimeOrWithItsTask(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxDuration = time.Millisecond
	if _, err := w.render("{{ range 1000000000000 }}{{ end }}"); !errdefs.IsResourceExhausted(err) {
		t.Errorf("time: %v", err)
	}
	w.cfg.MaxDuration = time.Hour
	w.task.Templates = []*model.Template{tmpl("{{ range 1000000000000 }}{{ end }}")}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	r, err := template.New(w.cfg).Open(t.Context(), w.task)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.First(ctx); !errdefs.IsDeadlineExceeded(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("task: %v", err)
	}
}

func TestManyShortTemplatesMayBeLong(t *testing.T) {
	got, err := newWorld(t).render("{{ range loop 20000 }}line {{ . }}\n{{ end }}")
	if err != nil || len(got) != 208890 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestBlocksBesideEachOtherAreNotNested(t *testing.T) {
	data := strings.Repeat("{{ if 1 }}{{- range 1 }}{{ with 1 }}x{{ end }}{{ end -}}{{ else if 2 }}y{{ else }}z{{ end }}{{/* if */}}", 500)
	if got, err := newWorld(t).render(data); err != nil || got != strings.Repeat("x", 500) {
		t.Errorf("%.100q, %v", got, err)
	}
	data = strings.Repeat("{{ if 1 }}", 150) + "x" + strings.Repeat("{{ end }}", 150)
	if got, err := newWorld(t).render(data); err != nil || got != "x" {
		t.Errorf("%.100q, %v", got, err)
	}
}
