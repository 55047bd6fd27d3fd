// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/jobspec"
	"github.com/drover-project/drover/sdk/errdefs"
)

// withLocal is a job file with one local value.
func withLocal(expr string) string {
	return "locals {\n  a = [\"x\"]\n  big = [for i in range(1000) : i]\n  v = " + expr + "\n}\njob \"j\" {\n  meta = { n = \"${length(local.v)}\" }\n}\n"
}

// withMeta is a job file with one value that becomes text.
func withMeta(expr string) string {
	return "job \"j\" {\n  meta = { n = " + expr + " }\n}\n"
}

// TestNoFileTakesMoreThanItsBudget: each of these once took gigabytes, minutes or the
// whole stack of the process.
func TestNoFileTakesMoreThanItsBudget(t *testing.T) {
	big := strings.Repeat("x", 4000)
	for name, src := range map[string]string{
		"splats one after another":         withLocal("local.a" + strings.Repeat("[*]", 200_000)),
		"attribute splats":                 withLocal("local.a" + strings.Repeat(".*", 30_000)),
		"indexes one after another":        withLocal("local.a" + strings.Repeat("[0]", 30_000)),
		"a sum of many":                    withLocal("1" + strings.Repeat("+1", 30_000)),
		"a long and":                       withLocal("true" + strings.Repeat("&&true", 30_000)),
		"a long comparison":                withLocal("1" + strings.Repeat("==1", 30_000)),
		"three loops in each other":        withLocal("[for a in local.big : [for b in local.big : [for c in local.big : c]]]"),
		"loops with a condition":           withLocal("[for a in local.big : a if length([for b in local.big : b if length([for c in local.big : c if false]) > 0]) > 0]"),
		"loops in a map":                   withLocal("{for a in local.big : a => {for b in local.big : b => b}}"),
		"a splat in loops":                 withLocal("[for a in local.big : [for b in local.big : local.big[*]]]"),
		"text of texts":                    withLocal(`"` + strings.Repeat("${join(\"\", [for i in local.big : \""+big+"\"])}", 100) + `"`),
		"join with a long separator":       withLocal(`join(join("", [for i in local.big : "` + big + `"]), local.big)`),
		"replace with a long text":         withLocal(`replace(join("", [for i in local.big : "` + big + `"]), "x", join("", [for i in local.big : "` + big + `"]))`),
		"copies of a function":             withLocal(`[for i in local.big : upper(join("", [for i in range(100) : "` + big + `"]))]`),
		"tried in vain":                    withLocal("[for a in local.big : try([for b in local.big : [for c in local.big : c]], 1)]"),
		"many blocks":                      "job \"j\" {\n" + strings.Repeat("constraint {}\n", 30_000) + "}\n",
		"dynamic blocks":                   "locals {\n  a = [for i in range(1000) : i]\n}\njob \"j\" {\n  dynamic \"group\" {\n    for_each = setproduct(local.a, range(100))\n    content {}\n  }\n}\n",
		"a number of a million digits":     withMeta("1e9999999"),
		"a sum of two distant numbers":     withMeta("1e600000000 + 1e-600000000"),
		"a sum of two texts":               withMeta(`"1e600000000" + "1e-600000000"`),
		"the negative of a text":           withMeta(`-"1e99999999"`),
		"a product of products":            withMeta("1e1000 * 1e1000 * 1e1000"),
		"a remainder of powers":            withMeta("pow(10, 99999999) % 7"),
		"a number in a document":           withMeta(`"${jsondecode("[1e99999999]")[0]}"`),
		"a number in a format":             withMeta(`format("%d", "1e99999999")`),
		"a number out of a text":           withMeta(`tostring(tonumber("1e99999999"))`),
		"a comparison of distant numbers":  withMeta(`"1e600000000" > "1e-600000000" ? "a" : "b"`),
		"a small number of a few thousand": withMeta(`"1e-99999" + 0`),
		"many keys with long exponents":    withMeta("[" + strings.Repeat(`["a"]["1e99999999"],`, 1000) + "]"),
		"many such steps":                  withLocal("[" + strings.Repeat(`local.a["1e99999999"],`, 1000) + "]"),
		"errors in each byte":              strings.Repeat("\x00", 100_000),
		"an error with a long name":        "job \"j\" {\n  " + strings.Repeat("x", 100_000) + " = 1\n}\n",
		"a file of 3 MiB":                  "job \"j\" {}\n#" + strings.Repeat("x", 3<<20),
	} {
		_, err := jobspec.ParseHCL([]byte(src), jobspec.Options{})
		if err == nil || !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		} else if len(err.Error()) > 10_000 || strings.Contains(err.Error(), "panic") {
			t.Errorf("%s: an error of %d bytes: %.300s", name, len(err.Error()), err)
		}
	}
}

// TestAResultThatWouldBeTooLargeIsNotMade: the call itself is refused, since memory
// that a function has taken cannot be refused any more.
func TestAResultThatWouldBeTooLargeIsNotMade(t *testing.T) {
	big := strings.Repeat("x", 900)
	for name, src := range map[string]string{
		"replace of a short text": withLocal(`replace(join("", [for i in local.big : "` + big + `"]), "x", "` + strings.Repeat("z", 4000) + `")`),
		"join of many":            withLocal(`join("` + strings.Repeat("y", 100_000) + `", local.big)`),
		"a format of many verbs":  withLocal(`format("` + strings.Repeat("%[1]s", 1000) + `", join("", [for i in local.big : "` + big + `"]))`),
		"an indent of many lines": withLocal(`indent(9999, join("", [for i in local.big : "\n\n\n\n\n\n\n\n\n\n"]))`),
	} {
		if _, err := jobspec.ParseHCL([]byte(src), jobspec.Options{}); err == nil || !strings.Contains(err.Error(), "the result could have more than") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

func TestVariablesHaveTheSameBudget(t *testing.T) {
	src := []byte("variable \"v\" {}\njob \"j\" {}\n")
	const loops = "[for a in range(1000) : [for b in range(1000) : [for c in range(1000) : c]]]"
	for name, opts := range map[string]jobspec.Options{
		"a file with splats":              {VarFiles: []jobspec.VarFile{{Name: "v.hcl", Content: []byte("v = a" + strings.Repeat("[*]", 30_000))}}},
		"a file with loops":               {VarFiles: []jobspec.VarFile{{Name: "v.hcl", Content: []byte("v = " + loops)}}},
		"an argument":                     {Vars: map[string]string{"v": "[" + strings.Repeat("[0][*]", 30_000) + "]"}},
		"a default with loops":            {},
		"an endless number in a document": {VarFiles: []jobspec.VarFile{{Name: "v.json", Content: []byte(`{"v": [1, 1e99999999]}`)}}},
	} {
		text := src
		if name == "a default with loops" {
			text = []byte("variable \"v\" {\n  default = " + loops + "\n}\njob \"j\" {}\n")
		}
		if name == "an argument" {
			text = []byte("variable \"v\" {\n  type = list(any)\n}\njob \"j\" {}\n")
		}
		if _, err := jobspec.ParseHCL(text, opts); err == nil || !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALargeJobFileIsWithinTheBudget(t *testing.T) {
	var b strings.Builder
	b.WriteString("locals {\n  ports = { for i in range(500) : \"p${i}\" => 20000 + i }\n  text = \"" + strings.Repeat("y", 20_000) + "\"\n}\njob \"j\" {\n")
	for i := range 60 {
		fmt.Fprintf(&b, "  group \"g%d\" {\n    task \"t\" {\n      driver = \"raw_exec\"\n      config = { command = upper(\"a-${local.text}\"), args = [for k, v in local.ports : \"${k}=${v}\"] }\n      env = { A = local.ports[\"p%d\"], B = 1 + 2 * 3 }\n    }\n  }\n", i, i)
	}
	b.WriteString("}\n")
	draft, err := jobspec.ParseHCL([]byte(b.String()), jobspec.Options{})
	if err != nil {
		t.Fatalf("%.500s", err)
	}
	if n := len(draft.TaskGroups); n != 60 {
		t.Fatalf("%d groups", n)
	}
}

func TestATextThatLooksLikeAnEndlessNumberIsAText(t *testing.T) {
	d, err := jobspec.ParseHCL([]byte(withMeta(`"12e45678-${1e30 + 1}${-0.5}${"1e2" * 3}"`)), jobspec.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.Meta["n"]; got != "12e45678-1000000000000000000000000000001-0.5300" {
		t.Errorf("got %q", got)
	}
}

func TestTheCallersContextEndsAnEvaluation(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, src := range []string{withLocal("upper(\"a\")"), "job \"j\" {\n meta {\n a = \"b\"\n}\n}"} {
		_, err := jobspec.ParseHCL([]byte(src), jobspec.Options{Context: ctx})
		var parse *jobspec.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), "the caller is gone") {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func TestAJSONDocumentOfMoreObjectsThanAJobHasIsRefused(t *testing.T) {
	for name, src := range map[string]string{
		"groups":      `{"ID":"j","TaskGroups":[{}` + strings.Repeat(",{}", 600_000) + `]}`,
		"constraints": `{"Job":{"ID":"j","Constraints":[{}` + strings.Repeat(",{}", 600_000) + `]}}`,
	} {
		if _, err := jobspec.ParseJSON([]byte(src)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "objects") {
			t.Errorf("%s: %v", name, err)
		}
	}
	script := `{"ID":"j","Meta":{"script":"` + strings.Repeat(`if (a) {\n\"{\"`, 40_000) + `"}}`
	if _, err := jobspec.ParseJSON([]byte(script)); err != nil {
		t.Errorf("braces in a text count as objects: %.200s", err)
	}
}
