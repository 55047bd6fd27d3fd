// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package netrecords_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drover-project/drover/plugins/internal/netrecords"
)

type record struct{ ID, Value string }

func store(t *testing.T) *netrecords.Store[record] {
	t.Helper()
	s := &netrecords.Store[record]{
		Dir: t.TempDir(), Owner: func(r *record) string { return r.ID }, Damaged: func(id string) *record { return &record{ID: id, Value: "damaged"} },
	}
	if err := s.Locked(t.Context(), "lock", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAReaderSeesEachChangeOfOtherProcesses(t *testing.T) {
	s := store(t)
	r := netrecords.Reader[record]{Store: s}
	is := func(want map[string]string) {
		t.Helper()
		all, err := r.All()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for id, one := range all {
			got[id] = one.Value
		}
		if !maps.Equal(got, want) {
			t.Errorf("it sees %v, want %v", got, want)
		}
	}
	put := func(write func(*record) error, id, value string) {
		t.Helper()
		if err := write(&record{id, value}); err != nil {
			t.Fatal(err)
		}
	}
	is(map[string]string{})
	put(s.Put, "a", "1")
	put(s.Announce, "b", "1")
	is(map[string]string{"a": "1", "b": "1"})
	first, _ := r.All()
	if again, _ := r.All(); again["a"] != first["a"] {
		t.Error("a file that has not changed was read again")
	}
	for _, value := range []string{"2", "3", "4"} { // within one tick of the file system's clock, and as long
		put(s.Announce, "a", value)
		is(map[string]string{"a": value, "b": "1"})
	}
	if err := s.Sync("a"); err != nil {
		t.Error(err)
	}
	file := filepath.Join(s.Dir, "networks", "b.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	is(map[string]string{"a": "4", "b": "damaged"})
	if err := s.Remove("b"); err != nil {
		t.Fatal(err)
	}
	is(map[string]string{"a": "4"})
	if ids, err := s.IDs(); err != nil || !slices.Equal(ids, []string{"a"}) {
		t.Errorf("%q, %v", ids, err)
	}
	if err := s.Sync("b"); err == nil {
		t.Error("a record that is gone was made durable")
	}
}
