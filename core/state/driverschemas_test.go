// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package state_test

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

func nodeWith(id, driver, hash string) *model.Node {
	return &model.Node{ID: id, Datacenter: "dc1", NodePool: "default", Drivers: map[string]*model.DriverInfo{driver: {SchemaHash: hash, PluginVersion: "1.0"}}}
}

// change is one log entry.
func change(t *testing.T, s *state.Store, f func(*state.Tx) error) error {
	t.Helper()
	return s.Update(s.View().Index()+1, f)
}

func TestASchemaIsKeptOnceAndGoesOnlyWhenNoNodeHasIt(t *testing.T) {
	s := state.New()
	if err := change(t, s, func(tx *state.Tx) error {
		tx.RegisterNode(nodeWith("n1", "docker", "h"))
		tx.RegisterNode(nodeWith("n2", "docker", "h"))
		return tx.AddDriverSchema(&model.DriverSchema{Hash: "h", Driver: "docker", Body: []byte("{}")})
	}); err != nil {
		t.Fatal(err)
	}
	created := s.View().DriverSchemaByHash("h").CreateIndex
	if err := change(t, s, func(tx *state.Tx) error {
		tx.DeleteDriverSchema("h", 0)
		tx.MarkDriverSchema("h", 5)
		return tx.AddDriverSchema(&model.DriverSchema{Hash: "h", Driver: "docker", Body: []byte("other")})
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.View().DriverSchemaByHash("h"); got == nil || string(got.Body) != "{}" || got.CreateIndex != created || got.UnusedSince != 0 {
		t.Fatalf("a schema in use was changed: %+v", got)
	}
	if uses := s.View().DriverUses("docker"); len(uses) != 1 || uses[0].Nodes != 2 || uses[0].Version != "1.0" {
		t.Fatalf("uses %+v", uses)
	}
	if err := change(t, s, func(tx *state.Tx) error {
		tx.RegisterNode(nodeWith("n1", "docker", "newer"))
		if err := tx.DeleteNode("n2"); err != nil {
			return err
		}
		tx.MarkDriverSchema("h", 100)
		tx.DeleteDriverSchema("h", 99)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := s.View().DriverSchemaByHash("h"); got == nil || got.UnusedSince != 100 {
		t.Fatalf("an unused schema is not remembered: %+v", got)
	}
	if err := change(t, s, func(tx *state.Tx) error { tx.RegisterNode(nodeWith("n3", "docker", "h")); return nil }); err != nil {
		t.Fatal(err)
	}
	if got := s.View().DriverSchemaByHash("h"); got.UnusedSince != 0 {
		t.Fatal("a schema that is in use again is still marked")
	}
	if err := change(t, s, func(tx *state.Tx) error {
		if err := tx.DeleteNode("n3"); err != nil {
			return err
		}
		tx.MarkDriverSchema("h", 200)
		tx.DeleteDriverSchema("h", 200)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s.View().DriverSchemaByHash("h") != nil {
		t.Fatal("an unused schema stays for ever")
	}
}

func TestADriverWithManySchemasCrowdsOutOnlyItself(t *testing.T) {
	s := state.New()
	add := func(driver, hash string) error {
		return change(t, s, func(tx *state.Tx) error {
			return tx.AddDriverSchema(&model.DriverSchema{Hash: hash, Driver: driver, Body: []byte("{}")})
		})
	}
	if err := add("docker", "calm"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := add("restless", fmt.Sprintf("r%03d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.View().DriverSchemasOf("restless")); n != 64 || s.View().DriverSchemaByHash("r000") != nil || s.View().DriverSchemaByHash("r099") == nil {
		t.Fatalf("%d schemas are kept, of which the oldest must go", n)
	}
	if s.View().DriverSchemaByHash("calm") == nil {
		t.Fatal("the schema of another driver had to go")
	}
	for i := range 64 {
		hash := fmt.Sprintf("used%02d", i)
		if err := add("busy", hash); err != nil {
			t.Fatal(err)
		}
		if err := change(t, s, func(tx *state.Tx) error { tx.RegisterNode(nodeWith(hash, "busy", hash)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("busy", "one too many"); !errdefs.IsResourceExhausted(err) {
		t.Fatalf("schemas in use had to go: %v", err)
	}
}
