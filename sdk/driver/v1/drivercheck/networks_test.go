// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package drivercheck_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/sdk/conformance"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// networker is a driver that makes a file for each network, which outlives its process.
type networker struct {
	driver.Driver
	dir     string
	path    func(alloc string) string // nil: by the alloc
	forgets bool                      // it destroys only what it is told
	strict  bool                      // it refuses to destroy what is not there
	keeps   bool                      // it says that it destroys
}

func (n *networker) CreateNetwork(_ context.Context, req driver.NetworkRequest) (*driver.NetworkIsolation, error) {
	path := filepath.Join(n.dir, req.AllocID)
	if n.path != nil {
		path = n.path(req.AllocID)
	}
	return &driver.NetworkIsolation{Mode: driver.NetworkGroup, Path: path}, os.WriteFile(path, nil, 0o600)
}

func (n *networker) DestroyNetwork(_ context.Context, alloc string, network *driver.NetworkIsolation) error {
	if n.keeps || network == nil && n.forgets {
		return nil
	}
	err := os.Remove(filepath.Join(n.dir, alloc))
	if os.IsNotExist(err) && !n.strict {
		return nil
	}
	return err
}

func TestEachDefectOfANetworkerIsFound(t *testing.T) {
	made := 0
	dir := t.TempDir()
	for what, c := range map[string]struct {
		check string
		n     networker
		want  conformance.Outcome
	}{
		"as it is":              {"network-again", networker{}, conformance.Passed},
		"as it is, lost":        {"network-lost", networker{}, conformance.Passed},
		"another one each time": {"network-again", networker{path: func(alloc string) string { made++; return filepath.Join(dir, fmt.Sprint(alloc, made)) }}, conformance.Failed},
		"nowhere":               {"network-again", networker{path: func(string) string { return "" }}, conformance.Failed},
		"strict":                {"network-again", networker{strict: true}, conformance.Failed},
		"kept":                  {"network-again", networker{keeps: true}, conformance.Failed},
		"forgotten":             {"network-lost", networker{forgets: true}, conformance.Failed},
	} {
		c.n.dir = t.TempDir()
		s := defect(func(d driver.Driver) driver.Driver { c.n.Driver = d; return &c.n })
		if r := check(t, c.check, s); r.Outcome != c.want {
			t.Errorf("%s: %+v, want %s", what, r, c.want)
		}
	}
}
