// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package jobspec_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/jobspec"
)

// evaluate gives the value of an expression of a job file, as text.
func evaluate(expr string, opts jobspec.Options) (string, error) {
	d, err := jobspec.ParseHCL(fmt.Appendf(nil, "job \"j\" {\n  meta {\n    v = %s\n  }\n}\n", expr), opts)
	if err != nil {
		return "", err
	}
	return d.Meta["v"], nil
}

// documented are functions that the reference's documents list.
var documented = map[string]string{
	"abs": `abs(-1)`, "ceil": `ceil(1.2)`, "floor": `floor(1.2)`, "log": `log(1, 10)`, "max": `max(1, 2)`, "min": `min(1, 2)`, "parseint": `parseint("ff", 16)`, "pow": `pow(2, 3)`, "signum": `signum(-2)`,
	"chomp": `chomp("a\n")`, "format": `format("%s-%d", "a", 1)`, "formatlist": `join(",", formatlist("%s!", ["a", "b"]))`, "indent": `indent(1, "a\nb")`, "join": `join(",", ["a"])`, "lower": `lower("A")`,
	"regex": `regex("[a-z]+", "1ab")`, "regex_replace": `regex_replace("aXb", "X", "-")`, "replace": `replace("aXb", "X", "-")`, "split": `split(",", "a,b")[1]`, "strlen": `strlen("abc")`, "strrev": `strrev("abc")`,
	"substr": `substr("hello", 1, 3)`, "title": `title("a b")`, "trim": `trim("xax", "x")`, "trimprefix": `trimprefix("pa", "p")`, "trimspace": `trimspace(" a ")`, "trimsuffix": `trimsuffix("as", "s")`, "upper": `upper("a")`,
	"chunklist": `length(chunklist([1, 2, 3], 2))`, "coalesce": `coalesce("", "b")`, "coalescelist": `coalescelist([], ["c"])[0]`, "compact": `length(compact(["a", ""]))`, "concat": `join("", concat(["a"], ["b"]))`,
	"contains": `contains(["a"], "a")`, "distinct": `length(distinct(["a", "a"]))`, "element": `element(["a", "b"], 3)`, "flatten": `length(flatten([[1], [2, 3]]))`, "index": `index(["a", "b"], "b")`,
	"keys": `keys({ a = 1 })[0]`, "length": `length([1, 2])`, "lookup": `lookup({ a = "x" }, "b", "d")`, "merge": `merge({ a = 1 }, { a = 2 }).a`, "range": `length(range(3))`, "reverse": `reverse(["a", "b"])[0]`,
	"setintersection": `length(setintersection(["a", "b"], ["b"]))`, "setproduct": `length(setproduct(["a", "b"], ["c"]))`, "setunion": `length(setunion(["a"], ["b"]))`, "slice": `slice(["a", "b"], 1, 2)[0]`, "sort": `sort(["b", "a"])[0]`,
	"values": `values({ a = 1 })[0]`, "zipmap": `zipmap(["a"], [1]).a`,
	"can": `can(tonumber("x"))`, "convert": `convert("3", number)`, "try": `try(tonumber("x"), "d")`,
	"bcrypt": `substr(bcrypt("a", 4), 0, 4)`, "md5": `md5("a")`, "sha1": `sha1("a")`, "sha256": `sha256("a")`, "sha512": `strlen(sha512("a"))`,
	"formatdate": `formatdate("YYYY", "2020-01-02T00:00:00Z")`, "timeadd": `timeadd("2020-01-02T00:00:00Z", "1h")`,
	"base64decode": `base64decode("YQ==")`, "base64encode": `base64encode("a")`, "base64gzip": `substr(base64gzip("a"), 0, 4)`, "csvdecode": `csvdecode("a,b\n1,2")[0].b`, "jsondecode": `jsondecode("[1]")[0]`, "jsonencode": `jsonencode({ a = 1 })`,
	"urlencode": `urlencode("a b")`, "yamldecode": `yamldecode("a: {b: c}").a.b`, "yamlencode": `yamlencode({ a = 1 })`,
	"basename": `basename("/a/b")`, "dirname": `dirname("/a/b")`, "file": `file("f")`, "filebase64": `filebase64("f")`, "fileexists": `fileexists("none")`, "fileset": `length(fileset(".", "f*"))`, "abspath": `strlen(abspath("f")) > 3`,
	"pathexpand": `pathexpand("/x")`, "templatefile": `templatefile("t.tpl", { who = "you", n = ["a", "b"] })`,
	"cidrhost": `cidrhost("10.0.0.0/8", 5)`, "cidrnetmask": `cidrnetmask("10.0.0.0/8")`, "cidrsubnet": `cidrsubnet("10.0.0.0/8", 8, 2)`, "cidrsubnets": `cidrsubnets("10.0.0.0/8", 8)[0]`,
	"uuidv4": `strlen(uuidv4())`, "uuidv5": `uuidv5("dns", "example.com")`, "timestamp": `strlen(timestamp())`,
}

// values of those whose value says something.
var values = map[string]string{
	"abs": "1", "parseint": "255", "format": "a-1", "formatlist": "a!,b!", "indent": "a\n b", "regex": "ab", "regex_replace": "a-b", "strrev": "cba", "substr": "ell", "title": "A B", "coalesce": "b", "element": "b",
	"lookup": "d", "setproduct": "2", "can": "false", "convert": "3", "try": "d", "bcrypt": "$2a$", "md5": "0cc175b9c0f1b6a831c399e269772661", "sha512": "128", "timeadd": "2020-01-02T01:00:00Z", "base64gzip": "H4sI",
	"csvdecode": "2", "jsonencode": `{"a":1}`, "urlencode": "a+b", "yamldecode": "c", "yamlencode": "\"a\": 1\n", "basename": "b", "dirname": "/a", "file": "content", "filebase64": "Y29udGVudA==", "fileexists": "false", "fileset": "1", "index": "1",
	"templatefile": "hi you: a b CONTENT", "cidrhost": "10.0.0.5", "cidrnetmask": "255.0.0.0", "cidrsubnet": "10.2.0.0/16", "cidrsubnets": "10.0.0.0/16", "uuidv4": "36", "uuidv5": "cfbff0d1-9375-5685-968c-48ce8b15ae17", "timestamp": "20",
}

func TestEveryDocumentedFunctionWorks(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"f": "content", "t.tpl": `hi ${who}:%{ for x in n } ${x}%{ endfor } ${upper(file("f"))}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	opts := jobspec.Options{AllowFS: true, BaseDir: dir}
	t.Chdir(dir)
	for name, expr := range documented {
		got, err := evaluate(expr, opts)
		if err != nil || got == "" {
			t.Errorf("%s: %q, %v", expr, got, err)
		}
		if want, ok := values[name]; ok && got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

func TestAServerReadsNoFilesForAJob(t *testing.T) {
	for _, expr := range []string{`file("/etc/passwd")`, `filebase64("/etc/passwd")`, `fileexists("/etc/passwd")`, `join("", fileset("/etc", "p*"))`, `abspath("x")`, `pathexpand("~")`, `templatefile("/etc/passwd", {})`} {
		if got, err := evaluate(expr, jobspec.Options{}); err == nil || !strings.Contains(err.Error(), "disabled here because it reads files") {
			t.Errorf("%s: %q, %v", expr, got, err)
		}
	}
}

func TestFunctionsThatCannotBeSayWhy(t *testing.T) {
	for expr, want := range map[string]string{
		`bcrypt("a", 31)`:                "must not be over 14",
		`indent(1000000000, "a\nb")`:     "must not be over 9999",
		`consul_key("a")`:                "reads no Consul",
		`vault("secret/a", "k")`:         "reads no Vault",
		`yamldecode("a: [")`:             "input.hcl:3",
		`templatefile("none", {})`:       "no such file",
		`templatefile("bad.tpl", {})`:    "bad.tpl:1",
		`templatefile("self.tpl", {})`:   "templatefile",
		`templatefile("deep.tpl", {})`:   "Nested too deeply",
		`templatefile("ok.tpl", "text")`: "object or a map",
		`yamldecode(file("laughs.yml"))`: "aliases counted as what they name",
	} {
		dir := t.TempDir()
		laughs := "a: &a [x, x, x, x, x, x, x, x]\n"
		for c := 'b'; c < 'l'; c++ {
			laughs += fmt.Sprintf("%c: &%c [*%c, *%c, *%c, *%c, *%c, *%c]\n", c, c, c-1, c-1, c-1, c-1, c-1, c-1)
		}
		for name, text := range map[string]string{"bad.tpl": "${", "ok.tpl": "x", "self.tpl": `${templatefile("self.tpl", {})}`, "deep.tpl": strings.Repeat("%{ if true }", 30_000), "laughs.yml": laughs} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if got, err := evaluate(expr, jobspec.Options{AllowFS: true, BaseDir: dir}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %.60q, %v; want %q", expr, got, err, want)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s took %v", expr, took)
		}
	}
}

func TestLengthCountsElementsAndCharacters(t *testing.T) {
	for expr, want := range map[string]string{
		`length("ami-é")`: "5", `length("")`: "0", `length([1, 2])`: "2", `length({ a = 1 })`: "1", `length(toset(["a", "a"]))`: "1", `length([])`: "0",
	} {
		if got, err := evaluate(expr, jobspec.Options{}); err != nil || got != want {
			t.Errorf("%s is %q, %v", expr, got, err)
		}
	}
	for expr, why := range map[string]string{`length(5)`: "must be a list, a map", `length(null)`: "null"} {
		if got, err := evaluate(expr, jobspec.Options{}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s is %q, %v", expr, got, err)
		}
	}
}
