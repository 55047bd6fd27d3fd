// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverschema_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

func attr(name string, typ schema.Type, required bool, about string) schema.Attribute {
	return schema.Attribute{Name: name, Type: typ, Required: required, Description: about}
}

func shell() *driverschema.Body {
	return &driverschema.Body{Driver: "shell", Task: schema.Schema{Attributes: []schema.Attribute{
		attr("command", schema.String, true, "program to run"),
		attr("args", schema.ListString, false, "its arguments"),
	}}}
}

func TestABodySurvivesItsBytesAndItsHashNamesIt(t *testing.T) {
	hash, data, err := shell().Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := driverschema.Decode(data)
	if err != nil || back.Driver != "shell" || !reflect.DeepEqual(back.Task, shell().Task) || back.Hash() != hash {
		t.Fatalf("decoded %+v, %v", back, err)
	}
	again, _, err := shell().Encode()
	if err != nil || again != hash || hash != driverschema.Hash(data) {
		t.Fatalf("hashes %s, %s and %s, %v", hash, again, driverschema.Hash(data), err)
	}
	other := shell()
	other.Capabilities.Exec = true
	if changed, _, err := other.Encode(); err != nil || changed == hash {
		t.Fatalf("another body has the same hash: %v", err)
	}
}

func TestABodyThatNobodyShouldKeepIsRefused(t *testing.T) {
	deep := schema.Schema{}
	for range 40 {
		inner := deep
		deep = schema.Schema{Attributes: []schema.Attribute{{Name: "b", Type: schema.Block, Block: &inner}}}
	}
	wide := schema.Schema{}
	for range 3000 {
		wide.Attributes = append(wide.Attributes, attr("a", schema.Any, false, ""))
	}
	for name, b := range map[string]*driverschema.Body{
		"no driver": {},
		"too large": {Driver: "d", Task: schema.Schema{Attributes: []schema.Attribute{attr("a", schema.Any, false, strings.Repeat("x", driverschema.MaxBytes))}}},
		"too deep":  {Driver: "d", Task: deep},
		"too wide":  {Driver: "d", Task: wide},
		"no JSON":   {Driver: "d", Task: schema.Schema{Attributes: []schema.Attribute{{Name: "a", Default: func() {}}}}},
	} {
		if _, _, err := b.Encode(); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatThisVersionDoesNotKnowAcceptsAnyValue(t *testing.T) {
	b, err := driverschema.Decode([]byte(`{"driver":"d","later":1,"capabilities":{"teleport":true},"task":{"attributes":[
		{"name":"new","type":"map(list(duration))"},{"name":"broken","type":"block"},{"name":"odd","type":"string","block":{}}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Task.Validate(map[string]any{"new": 5, "broken": "x", "odd": []any{map[string]any{}}}); err != nil {
		t.Fatal(err)
	}
}

func FuzzNoBodyAndNoConfigPanics(f *testing.F) {
	f.Add([]byte(`{"driver":"d","task":{"attributes":[{"name":"a","type":"block","block":{"attributes":[{"name":"b","type":"list(map(string))","required":true}]}}]}}`), []byte(`{"a":[{"b":[{"c":1}]}]}`))
	f.Add([]byte(`{"driver":"d","task":{"attributes":[{"name":"a","type":"list(block)"},{"name":"","type":"any","default":{}}]}}`), []byte(`{"":null}`))
	f.Fuzz(func(_ *testing.T, body, config []byte) {
		b, err := driverschema.Decode(body)
		if err != nil {
			return
		}
		job := &model.Job{TaskGroups: []*model.TaskGroup{{Name: "g", Tasks: []*model.Task{{Name: "t", Driver: "d", Config: decodeMap(config)}}}}}
		driverschema.Check(job, func(string) driverschema.Found { return driverschema.Found{Bodies: []*driverschema.Body{b}} })
	})
}
