// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func TestFunctionsGiveWhatTheReferencesDocumentsSay(t *testing.T) {
	for data, want := range map[string]string{
		`plain`:                             "plain",
		`{{ env "NAME" }}-{{ env "NONE" }}`: "web-",
		`{{ envOrDefault "EMPTY" "d" }}`:    "d",
		`{{ mustEnv "NAME" }}`:              "web",
		`{{ base64Encode "a?b>" }} {{ base64Decode "YT9iPg==" }}`:                                                         "YT9iPg== a?b>",
		`{{ base64URLEncode "a?b>" }} {{ base64URLDecode "YT9iPg==" }}`:                                                   "YT9iPg== a?b>",
		`{{ "<a>" | toJSON }} {{ "<a>" | toUnescapedJSON }}`:                                                              `"\u003ca\u003e" "<a>"`,
		`{{ (parseJSON "{\"a\":{\"b\":[1,2]}}").a.b | toJSON }}`:                                                          "[1,2]",
		`{{ parseJSON "{\"a\":1}" | toJSONPretty }}`:                                                                      "{\n  \"a\": 1\n}",
		`{{ (parseYAML "a: {b: c}").a.b }}`:                                                                               "c",
		`{{ parseJSON "{\"a\":{\"b\":1}}" | toYAML }}`:                                                                    "a:\n    b: 1",
		`{{ parseJSON "{\"a\":{\"b\":\"c\"}}" | toTOML }}`:                                                                "[a]\n  b = \"c\"",
		`{{ parseBool "true" }} {{ parseInt "-3" }} {{ parseUint "3" }} {{ parseFloat "1.5" }} {{ parseInt "" }}`:         "true -3 3 1.5 0",
		`{{ range loop 3 }}{{ . }}{{ end }} {{ range $i := loop 5 8 }}{{ $i }}{{ end }}`:                                  "012 567",
		`{{ range $i, $v := loop 5 7 }}{{ $i }}={{ $v }} {{ end }}`:                                                       "0=5 1=6 ",
		`{{ "a,b" | split "," | join "-" }}`:                                                                              "a-b",
		`{{ (splitToMap ";" "=" "a=1; b=2").b }}`:                                                                         "2",
		`{{ "  x " | trimSpace }}{{ "xxax" | trim "x" }}{{ "pre-a" | trimPrefix "pre-" }}{{ "a.go" | trimSuffix ".go" }}`: "xaaa",
		`{{ "foo.bar" | replaceAll "." "_" }}`:                                                                            "foo_bar",
		`{{ if "foo.bar" | regexMatch "^foo[.a-z]+$" }}y{{ end }}`:                                                        "y",
		`{{ "foo.bar" | regexReplaceAll "(o+)" "<$1>" }}`:                                                                 "f<oo>.bar",
		`{{ "a\n\nb" | indent 2 }}`:                                                                                       "  a\n\n  b",
		`{{ "Ab" | toLower }}{{ "ab" | toUpper }} {{ "the cat" | toTitle }}`:                                              "abAB The Cat",
		`{{ if in (sprig_list "a" "b") "a" }}y{{ end }}{{ if contains "z" (sprig_list "a") }}n{{ end }}`:                  "y",
		`{{ $w := sprig_list "a" "b" }}{{ containsAll $w $w }} {{ containsAny $w (sprig_list "b") }} {{ containsNone $w (sprig_list "c") }} {{ containsNotAll $w (sprig_list "a") }}`: "true true true true",
		`{{ md5sum "a" }}`:            "0cc175b9c0f1b6a831c399e269772661",
		`{{ sha256Hex "a" }}`:         "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb",
		`{{ hmacSHA256Hex "m" "k" }}`: "b60090e3052297aeb5a080889ce2fc4bca957e756faeb4df7d31800ca1e771ec",
		`{{ 5 | add 2 }} {{ 5 | subtract 2 }} {{ 5 | multiply 2 }} {{ 10 | divide 2 }} {{ 5 | modulo 2 }} {{ 5 | minimum 2 }} {{ 5 | maximum 2 }} {{ 1.5 | add 1 }}`: "7 3 10 5 1 2 5 2.5",
		`{{ sprig_upper "a" }} {{ sprig_repeat 3 "ab" }} {{ sprig_until 3 }}`:                                                                                        "A ababab [0 1 2]",
		`{{ scratch.Set "a" 1 }}{{ scratch.SetX "a" 2 }}{{ scratch.Get "a" }}{{ scratch.Key "b" }}`:                                                                  "1false",
		`{{ scratch.MapSet "m" "b" 2 }}{{ scratch.MapSet "m" "a" 1 }}{{ scratch.MapSetX "m" "a" 3 }}{{ scratch.MapValues "m" }}`:                                     "[1 2]",
		`{{ (explodeMap (parseJSON "{\"a/b\":1,\"a/c\":2}")) | toJSON }}`:                                                                                            `{"a":{"b":1,"c":2}}`,
		`{{ parseJSON "{\"a\":1,\"b\":2}" | mergeMap (parseJSON "{\"a\":0,\"c\":3}") | toJSON }}`:                                                                    `{"a":1,"b":2,"c":3}`,
		`{{ parseJSON "{\"a\":1}" | mergeMapWithOverride (parseJSON "{\"a\":0,\"c\":3}") | toJSON }}`:                                                                `{"a":0,"c":3}`,
		`{{ define "t" }}<{{ . }}>{{ end }}{{ executeTemplate "t" 1 }}{{ template "t" 2 }}`:                                                                          "<1><2>",
		`{{ "x" | sprig_default "d" }} {{ sprig_regexReplaceAll "a(.)" "abac" "${1}" }} {{ sprig_mustRegexMatch "a" "a" }}`:                                          "x bc true",
		`{{ printf "%05d|%-3s|%q" 42 "a" "b" }} {{ print 1 "a" 2 }}`:                                                                                                 `00042|a  |"b" 1a2`,
		`{{ (parseJSON "{}").nothing }}`: "<no value>",
		`{{/* c */}}{{- "a" -}}  {{ if and 1 (or 0 "x") }}b{{ else }}c{{ end }}{{ with $x := 1 }}{{ $x }}{{ end }}`:               "ab1",
		`{{ range sprig_list 1 2 3 4 }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if eq . 4 }}{{ break }}{{ end }}{{ . }}{{ end }}`: "13",
		`{{ range 3 }}{{ . }}{{ end }}{{ range sprig_list }}x{{ else }}none{{ end }}`:                                             "012none",
	} {
		t.Run(data, func(t *testing.T) {
			got, err := newWorld(t).render(data)
			if err != nil || got != want {
				t.Errorf("got %q, %v; want %q", got, err, want)
			}
		})
	}
}

func TestTimestampFollowsItsLayout(t *testing.T) {
	w := newWorld(t)
	before := time.Now().UTC().Truncate(time.Second)
	got, err := w.render(`{{ timestamp }}|{{ timestamp "2006" }}|{{ timestamp "unix" }}`)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(got, "|")
	at, err := time.Parse(time.RFC3339, parts[0])
	if err != nil || at.Before(before) || parts[1] != at.Format("2006") || len(parts[2]) != 10 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestDelimitersAreThoseOfTheTemplate(t *testing.T) {
	w := newWorld(t)
	tm := w.add("{{ x }} [[ env \"NAME\" ]][[ range loop 2 ]].[[ end ]]", nil)
	tm.LeftDelim, tm.RightDelim = "[[", "]]"
	r := w.open()
	defer r.Close()
	if err := r.First(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := w.read("local/out"); got != "{{ x }} web.." {
		t.Errorf("%q", got)
	}
}

func TestAWrongTemplateSaysFileAndLine(t *testing.T) {
	for data, want := range map[string]string{
		"a\nb {{ nofunc 1 }}":                         `local/out:2: function "nofunc" not defined`,
		"\n\n{{ if }}":                                "local/out:3: missing value for if",
		"\n{{ range 1 }}":                             "local/out:2: unexpected EOF",
		"{{ \n":                                       "local/out:1",
		"\n\n  {{ plugin \"x\" }}":                    "local/out:3:5: function \"plugin\" is disabled",
		"\n{{ keyExistsGet \"a\" }}":                  "local/out:2:3: function \"keyExistsGet\" cannot be used: of Consul",
		"{{ nomadVar \"a\" }}":                        "local/out:1:3: function \"nomadVar\" reads nomad.var.block, which this cluster",
		"\n{{ parseInt \"x\" }}":                      "local/out:2:3: executing \"local/out\" at <parseInt \"x\">",
		"{{ mustEnv \"NONE\" }}":                      "local/out:1:3",
		"\n{{ range 2 }}\n {{ divide 0 1 }}{{ end }}": "local/out:3:4",
		"{{ sprig_env \"HOME\" }}":                    "reads the environment of the agent",
		"{{ (sprig_list 1).x }}":                      "local/out:1",
		"{{ call 3 }}":                                "local/out:1",
		"{{ sprig_fail \"no\" }}":                     "no",
		"{{ template \"none\" }}":                     "local/out:1",
	} {
		_, err := newWorld(t).render(data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", data, err, want)
		}
		if c := errdefs.ClassOf(err); c == errdefs.Internal {
			t.Errorf("%q: class %v of %v", data, c, err)
		}
	}
}
