// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package schema_test

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

func rawExec() *schema.Schema {
	return &schema.Schema{Attributes: []schema.Attribute{
		{Name: "command", Type: schema.String, Required: true},
		{Name: "args", Type: schema.ListString},
		{Name: "cgroup_v1_override", Type: schema.ListMapString},
		{Name: "cgroup_v2_override", Type: schema.String},
		{Name: "denied_envvars", Type: schema.ListString},
		{Name: "oom_score_adj", Type: schema.Number, Default: 0},
		{Name: "work_dir", Type: schema.String},
		{Name: "mount", Type: schema.BlockList, Block: &schema.Schema{Attributes: []schema.Attribute{
			{Name: "source", Type: schema.String, Required: true},
			{Name: "readonly", Type: schema.Bool, Default: false},
		}}},
		{Name: "gc", Type: schema.Block, Block: &schema.Schema{Attributes: []schema.Attribute{
			{Name: "period", Type: schema.String, Default: "5m"},
		}}},
	}}
}

func TestApplyFillsDefaultsAndNormalisesBlocks(t *testing.T) {
	got, err := rawExec().Apply(map[string]any{
		"command": "sleep", "args": []any{"1", 2, true}, "oom_score_adj": "7",
		"cgroup_v1_override": map[string]any{"pids": "x"},
		"mount":              map[string]any{"source": "/a", "readonly": "true"},
		"gc":                 []any{map[string]any{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"command": "sleep", "args": []any{"1", "2", "true"}, "oom_score_adj": int64(7),
		"cgroup_v1_override": []any{map[string]any{"pids": "x"}},
		"mount":              []any{map[string]any{"source": "/a", "readonly": true}},
		"gc":                 map[string]any{"period": "5m"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("got  %#v\nwant %#v", got, want)
	}
}

func TestEveryProblemIsNamedWithItsPath(t *testing.T) {
	_, err := rawExec().Apply(map[string]any{
		"comand": "sleep", "args": "x", "oom_score_adj": "many",
		"mount": []any{map[string]any{"source": "/a"}, map[string]any{"readonly": 3}}, "zzzzzzz": 1,
	})
	if !errdefs.IsInvalidArgument(err) {
		t.Fatalf("class %s", errdefs.ClassOf(err))
	}
	for _, want := range []string{
		`config.command: required`,
		`config.comand: unknown attribute; did you mean "command"?`,
		`config.args: must be a list, is "x"`,
		`config.oom_score_adj: must be a number, is "many"`,
		`config.mount[1].source: required`,
		`config.mount[1].readonly: must be true or false, is 3`,
		`config.zzzzzzz: unknown attribute; known are command, args`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in:\n%v", want, err)
		}
	}
	if n := len(schema.ProblemsOf(err)); n != 7 {
		t.Errorf("%d problems, want 7", n)
	}
}

func TestAValueIsOneOfThoseThatTheSchemaListsOrInItsRange(t *testing.T) {
	s := schema.Schema{Attributes: []schema.Attribute{
		{Name: "mode", Type: schema.String, OneOf: []string{"private", "host"}},
		{Name: "score", Type: schema.Number, Range: &schema.Range{Min: -5, Max: 1000}},
	}}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for _, good := range []map[string]any{{"mode": "host"}, {"mode": ""}, {"score": -5}, {"score": "1000"}, {"score": 0.0}, {}} {
		if err := s.Validate(good); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
	for want, bad := range map[string]map[string]any{
		`config.mode: must be one of private, host, is "Host"`:           {"mode": "Host"},
		`config.score: must be a whole number from -5 to 1000, is -6`:    {"score": -6},
		`config.score: must be a whole number from -5 to 1000, is 1.5`:   {"score": 1.5},
		`config.score: must be a whole number from -5 to 1000, is 1001`:  {"score": "1001"},
		`config.score: must be a whole number from -5 to 1000, is 1e+30`: {"score": 1e30},
		`config.score: must be a number, is "many"`:                      {"score": "many"},
		`config.mode: must be one of private, host, is "${meta.x}"`:      nil, // where it should be replaced by now
		`config.score: must be a number, is "${meta.x}"`:                 nil,
	} {
		check := s.Validate
		if bad == nil {
			bad = map[string]any{"mode": "${meta.x}", "score": "${meta.x}"}
			if err := s.Validate(bad); err != nil {
				t.Errorf("in a job file: %v", err)
			}
			check = func(c map[string]any) error { _, err := s.Apply(c); return err }
		}
		if err := check(bad); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", bad, err, want)
		}
	}
}

func TestAConfigThatDoesNotFitTheStructNamesTheAttribute(t *testing.T) {
	for config, want := range map[string]string{
		`{"score": 1.5}`:        "config.score: must be a whole number of at most 16 bits, is 1.5",
		`{"score": 70000}`:      "config.score: must be a whole number of at most 16 bits, is 70000",
		`{"box": {"size": -1}}`: "config.box.size: must be a whole number of at least 0 and at most 64 bits, is -1",
		`{"score": "x"}`:        "config.score: a string cannot be used as int16",
	} {
		var into struct {
			Score int16 `json:"score"`
			Box   struct {
				Size uint64 `json:"size"`
			} `json:"box"`
		}
		err := schema.Unmarshal([]byte(config), &into)
		if !errdefs.IsInvalidArgument(err) || err.Error() != want || len(schema.ProblemsOf(err)) != 1 {
			t.Errorf("%s: %v, want %s", config, err, want)
		}
	}
}

func TestInterpolatedStringsStandForAnyValueInAJobFileOnly(t *testing.T) {
	config := map[string]any{"command": "x", "oom_score_adj": "${meta.adj}", "args": []any{"${NOMAD_PORT_http}"}}
	if err := rawExec().Validate(config); err != nil {
		t.Fatal(err)
	}
	if _, err := rawExec().Apply(config); err == nil {
		t.Fatal("a number that is not interpolated was accepted")
	}
}

func TestDurationsAndListsOfNumbersAreChecked(t *testing.T) {
	s := schema.Schema{Attributes: []schema.Attribute{
		{Name: "timeout", Type: schema.Duration, Default: "5m"}, {Name: "cpus", Type: schema.ListNumber},
	}}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	got, err := s.Apply(map[string]any{"cpus": []any{1, "2", 2.5}})
	if want := map[string]any{"timeout": "5m", "cpus": []any{int64(1), int64(2), 2.5}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, %v; want %#v", got, err, want)
	}
	for _, wrong := range []any{"5 minutes", 30, "", true, []any{"5m"}} {
		if err := s.Validate(map[string]any{"timeout": wrong}); err == nil || !strings.Contains(err.Error(), `config.timeout: must be a duration as "90s"`) {
			t.Errorf("%v: %v", wrong, err)
		}
	}
	if err := s.Validate(map[string]any{"timeout": "${meta.timeout}", "cpus": []any{1, "two"}}); err == nil || err.Error() != `config.cpus[1]: must be a number, is "two"` {
		t.Errorf("got %v", err)
	}
	unsound := schema.Schema{Attributes: []schema.Attribute{{Name: "timeout", Type: schema.Duration, Default: "soon"}}}
	if unsound.Check() == nil {
		t.Error("a default that is not a duration was accepted")
	}
}

func TestASensitiveValueIsNotTold(t *testing.T) {
	const secret = "hunter2"
	inner := &schema.Schema{Attributes: []schema.Attribute{{Name: "pin", Type: schema.Number, Sensitive: true}, {Name: "user", Type: schema.Number}}}
	s := schema.Schema{Attributes: []schema.Attribute{
		{Name: "password", Type: schema.Number, Sensitive: true}, {Name: "kind", Type: schema.String, OneOf: []string{"a"}, Sensitive: true},
		{Name: "port", Type: schema.Number, Range: &schema.Range{Min: 1, Max: 2}, Sensitive: true},
		{Name: "keys", Type: schema.ListMapNumber, Sensitive: true}, {Name: "auth", Type: schema.Block, Block: inner},
		{Name: "all", Type: schema.BlockList, Block: inner, Sensitive: true}, {Name: "open", Type: schema.Bool},
	}}
	err := s.Validate(map[string]any{
		"password": secret, "kind": secret, "port": 77, "keys": []any{map[string]any{"k": secret}},
		"auth": map[string]any{"pin": secret, "user": "joe"}, "all": []any{map[string]any{"user": secret}}, "open": "told",
	})
	problems := schema.ProblemsOf(err)
	if len(problems) != 8 {
		t.Fatalf("%d problems: %v", len(problems), err)
	}
	if text := err.Error(); strings.Contains(text, secret) || strings.Contains(text, "77") || !strings.Contains(text, `"joe"`) || !strings.Contains(text, `"told"`) {
		t.Errorf("got\n%s", text)
	}
}

func TestASchemaSurvivesJSONWithItsHash(t *testing.T) {
	s := rawExec()
	body, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var back schema.Schema
	if err := json.Unmarshal(body, &back); err != nil {
		t.Fatal(err)
	}
	if back.Hash() != s.Hash() {
		t.Fatal("the hash changed")
	}
	back.Attributes[0].Required = false
	if back.Hash() == s.Hash() {
		t.Fatal("another schema has the same hash")
	}
}

func TestDecodeReadsIntoAStruct(t *testing.T) {
	var c struct {
		Command string
		Args    []string
		Adj     int `json:"oom_score_adj"`
		Mount   []struct {
			Source   string
			Readonly bool
		}
	}
	config := map[string]any{"command": "sleep", "args": []string{"1"}, "mount": []map[string]any{{"source": "/a"}}}
	if err := rawExec().Decode(config, &c); err != nil {
		t.Fatal(err)
	}
	if c.Command != "sleep" || len(c.Args) != 1 || len(c.Mount) != 1 || c.Mount[0].Source != "/a" {
		t.Fatalf("%+v", c)
	}
	var small struct{ Command string }
	if err := rawExec().Decode(config, &small); err == nil {
		t.Fatal("a struct that lacks names of the schema was accepted")
	}
}

func TestCheckFindsUnsoundSchemas(t *testing.T) {
	if err := rawExec().Check(); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]schema.Attribute{
		"unknown type":      {Name: "a", Type: "strin"},
		"block without one": {Name: "a", Type: schema.Block},
		"wrong default":     {Name: "a", Type: schema.Number, Default: "x"},
		"useless default":   {Name: "a", Type: schema.Number, Default: 1, Required: true},
		"no name":           {Type: schema.Number},
		"values of a bool":  {Name: "a", Type: schema.Bool, OneOf: []string{"true"}},
		"range of a string": {Name: "a", Type: schema.String, Range: &schema.Range{Max: 1}},
		"empty range":       {Name: "a", Type: schema.Number, Range: &schema.Range{Min: 1}},
		"default not in it": {Name: "a", Type: schema.String, OneOf: []string{"x"}, Default: "y"},
	} {
		s := schema.Schema{Attributes: []schema.Attribute{a}}
		if s.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAHopelessConfigIsToldInAFewWords(t *testing.T) {
	config := map[string]any{"command": strings.Repeat("x", 1<<20), "oom_score_adj": strings.Repeat("y", 1<<20), strings.Repeat("z", 1<<20): 1}
	for i := range 20_000 {
		config["wrong"+strconv.Itoa(i)] = i
	}
	err := rawExec().Validate(config)
	problems := schema.ProblemsOf(err)
	if len(problems) != 101 || problems[100].Error() != "config: and 19902 more problems" {
		t.Fatalf("%d problems, the last %v", len(problems), problems[len(problems)-1])
	}
	if text := problems[0].Error(); len(text) > 200 || !strings.HasPrefix(text, `config.oom_score_adj: must be a number, is "yyy`) {
		t.Errorf("%d bytes: %.200s", len(text), text)
	}
}

func TestAProblemCarriesWhatThePluginSaysOfTheAttribute(t *testing.T) {
	s := schema.Schema{Attributes: []schema.Attribute{
		{Name: "mount", Type: schema.BlockList, Description: "what to show", Block: &schema.Schema{Attributes: []schema.Attribute{{Name: "source", Type: schema.String, Required: true, Description: "path of the machine"}}}},
		{Name: "tty", Type: schema.Bool, Description: "a terminal"},
	}}
	got := map[string]string{}
	for _, p := range schema.ProblemsOf(s.Validate(map[string]any{"mount": []any{map[string]any{"sorce": 1}, 7}, "tty": 5, "nothing": 1})) {
		got[p.Path] = p.Description
	}
	want := map[string]string{"config.mount[0].source": "path of the machine", "config.mount[0].sorce": "", "config.mount[1]": "what to show", "config.tty": "a terminal", "config.nothing": ""}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
