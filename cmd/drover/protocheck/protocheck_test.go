// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package protocheck_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/drover-project/drover/cmd/drover/protocheck"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/proto"
)

func TestEachContractSaysWhatEachFieldMeansAndInWhatItCounts(t *testing.T) {
	problems, err := protocheck.Lint(t.Context(), proto.Files)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error("sdk/proto/" + p)
	}
}

func TestEachRuleOfLintIsSeen(t *testing.T) {
	const sound = `syntax = "proto3";
package x.v1;
// S does it.
service S {
  // Do does it.
  rpc Do(M) returns (M);
}
// M is one.
message M {
  // Size in bytes.
  int64 size = 1;
  // What.
  oneof what {
    // Name.
    string name = 2;
  }
  // Kind.
  E kind = 3;
}
// E is a kind.
enum E {
  // Unknown.
  E_UNSPECIFIED = 0;
}
`
	lint := func(text string) string {
		t.Helper()
		problems, err := protocheck.Lint(t.Context(), fstest.MapFS{"x.proto": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(problems, "\n")
	}
	if got := lint(sound); got != "" {
		t.Fatalf("a sound file: %s", got)
	}
	for rule, change := range map[string][2]string{
		"PACKAGE_VERSION_SUFFIX":      {"package x.v1;", "package x;"},
		"COMMENT_SERVICE":             {"// S does it.\n", ""},
		"COMMENT_RPC":                 {"  // Do does it.\n", ""},
		"RPC_PASCAL_CASE":             {"rpc Do", "rpc do_it"},
		"COMMENT_MESSAGE":             {"// M is one.\n", ""},
		"COMMENT_FIELD":               {"  // Size in bytes.\n", ""},
		"FIELD_UNIT":                  {"Size in bytes", "How large it is"},
		"FIELD_LOWER_SNAKE_CASE":      {"int64 size", "int64 Size"},
		"COMMENT_ONEOF":               {"  // What.\n", ""},
		"COMMENT_ENUM":                {"// E is a kind.\n", ""},
		"COMMENT_ENUM_VALUE":          {"  // Unknown.\n", ""},
		"ENUM_ZERO_VALUE_SUFFIX":      {"E_UNSPECIFIED", "E_FIRST"},
		"ENUM_VALUE_UPPER_SNAKE_CASE": {"E_UNSPECIFIED", "e_UNSPECIFIED"},
	} {
		text := strings.ReplaceAll(sound, change[0], change[1])
		if got := lint(text); !strings.Contains(got, "("+rule+")") || !strings.HasPrefix(got, "x.proto:") {
			t.Errorf("%s: %q", rule, got)
		}
	}
}

// changed returns a copy of the contracts in which each old text is replaced.
func changed(t *testing.T, path, old, now string) fs.FS {
	t.Helper()
	body, err := fs.ReadFile(proto.Files, path)
	if err != nil || !strings.Contains(string(body), old) {
		t.Fatalf("%s has no %q: %v", path, old, err)
	}
	return fstest.MapFS{path: {Data: []byte(strings.Replace(string(body), old, now, 1))}}
}

func TestACopyOfTheContractsFits(t *testing.T) {
	compared, breaks, err := protocheck.Breaks(t.Context(), proto.Files)
	if err != nil || len(breaks) > 0 || len(compared) < 4 {
		t.Errorf("%d compared, %q, %v", len(compared), breaks, err)
	}
}

func TestACopyThatLacksAnAdditionFits(t *testing.T) {
	_, breaks, err := protocheck.Breaks(t.Context(), changed(t, "driver/v1/driver.proto", "  repeated string features = 5;\n", ""))
	if err != nil || len(breaks) > 0 {
		t.Errorf("%q, %v", breaks, err)
	}
}

func TestACopyThatMeansSomethingElseDoesNotFit(t *testing.T) {
	_, breaks, err := protocheck.Breaks(t.Context(), changed(t, "driver/v1/driver.proto", "repeated string features = 5;", "string mine = 5;"))
	if got := strings.Join(breaks, "\n"); err != nil || !strings.Contains(got, "driver/v1/driver.proto: ") || !strings.Contains(got, "was mine and is features") {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatIsNoContractIsAnError(t *testing.T) {
	for name, dir := range map[string]fstest.MapFS{
		"nothing there": {"a.txt": {}}, "another proto": {"x.proto": {Data: []byte("syntax = \"proto3\";")}},
	} {
		if _, _, err := protocheck.Breaks(t.Context(), dir); !errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := protocheck.Breaks(t.Context(), fstest.MapFS{"x.proto": {Data: []byte("nonsense {")}}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("nonsense: %v", err)
	}
}
