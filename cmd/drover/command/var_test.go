// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestAVariableIsReadFromAFileOrFromStandardInput(t *testing.T) {
	const hcl = "path = \"p\"\nmodify_index = 7\nitems = {\n  a = \"1\"\n}\n"
	const asJSON = "  \n{\"Path\":\"p\",\"Items\":{\"a\":\"1\"}}"
	dir := t.TempDir()
	for name, text := range map[string]string{"spec.hcl": hcl, "spec.json": asJSON, "spec": hcl, "jspec": asJSON} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, stdin, want string }{
		{"-", hcl, "p?cas=7 a=1"},
		{"-", asJSON, "p?cas=0 a=1"},
		{"-in json -", asJSON, "p?cas=0 a=1"},
		{"@spec.hcl", "", "p?cas=7 a=1"},
		{"@spec.json", "", "p?cas=0 a=1"},
		{"@spec", "", "p?cas=7 a=1"},
		{"@jspec", "", "p?cas=0 a=1"},
		{"p -", hcl, "p?cas=7 a=1"},
		{"p - a=2 b=3", asJSON, "p?cas=0 a=2 b=3"},
		{"p @spec.hcl", "", "p?cas=7 a=1"},
		{"-force p @spec.hcl", "", "p a=1"},
		{"other @spec.hcl b=@jspec", "", "other?cas=0 a=1 b=" + asJSON}, // the index is that of the path in the file
		{"p a=@-", "text", "p?cas=0 a=text"},
		{"-in hcl -", asJSON, "!"},
		{"-in json @spec", "", "!spec is not a variable in JSON"},
		{"-in yaml -", hcl, `!-in "yaml": use hcl or json`},
		{"p - @spec.hcl", hcl, `!"@spec.hcl" is not KEY=VALUE`},
		{"p a=1 -", hcl, `!"-" is not KEY=VALUE`},
		{"p", "", "!the variable has no items; give KEY=VALUE"},
	} {
		t.Chdir(dir)
		f := newFake(t, map[string]string{"PUT /v1/var/p": `{}`, "PUT /v1/var/other": `{}`})
		r := f.at(t, with(c.stdin, false), append([]string{"var", "put"}, strings.Fields(c.line)...)...)
		if says, wrong := strings.CutPrefix(c.want, "!"); wrong {
			if r.code != 1 || !strings.Contains(r.err, says) || len(f.writes()) > 0 || strings.Contains(r.err, "Go ") {
				t.Errorf("%s: exit code %d, asked %v: %s", c.line, r.code, f.writes(), r.err)
			}
			continue
		}
		if got := f.writes(); r.code != 0 || len(got) != 1 || putOf(t, got[0]) != c.want {
			t.Errorf("%s: exit code %d, asked %v, want %s: %s", c.line, r.code, got, c.want, r.err)
		}
	}
}

// putOf shortens a recorded write of a variable to PATH?cas=N KEY=VALUE...
func putOf(t *testing.T, line string) string {
	t.Helper()
	target, body, _ := strings.Cut(strings.TrimPrefix(line, "PUT /v1/var/"), " ")
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Items map[string]string }
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	out := u.Path
	if cas := u.Query().Get("cas"); cas != "" {
		out += "?cas=" + cas
	}
	for _, k := range slices.Sorted(maps.Keys(v.Items)) {
		out += " " + k + "=" + v.Items[k]
	}
	return out
}

func TestAVariableThatHasChangedIsNotPrintedWhenItIsNotPurged(t *testing.T) {
	r := execute(t, map[string]string{"GET /v1/vars": "[]", "DELETE /v1/var/p?cas=3": `409!{"Path":"p","ModifyIndex":9,"Items":{"a":"geheim"}}`, "DELETE /v1/var/p": `409!{"Path":"p","Items":{"a":"geheim"}}`}, "var", "purge", "-check-index", "3", "p")
	if r.code != 1 || strings.Contains(r.out+r.err, "geheim") || !strings.Contains(r.err, `variable "p" has another modify index than 3; read it with: drover var get p`) {
		t.Errorf("%d, %q, %q", r.code, r.out, r.err)
	}
}

func TestPurgingAVariableThatIsNotThereSaysSo(t *testing.T) {
	answers := map[string]string{"GET /v1/vars": `[{"Path":"a/b"}]`, "DELETE /v1/var/a": "", "DELETE /v1/var/a/b": ""}
	for path, want := range map[string]string{"a": `There is no variable "a" in namespace "default"; nothing was purged.`, "a/b": `Successfully purged variable "a/b"!`} {
		if r := execute(t, answers, "var", "purge", path); r.code != 0 || !strings.HasPrefix(r.out, want) {
			t.Errorf("%s: %d, %q, %q", path, r.code, r.out, r.err)
		}
	}
}
