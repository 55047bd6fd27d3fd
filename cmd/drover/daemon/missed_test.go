// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package daemon

import (
	"io"
	"testing"

	"github.com/drover-project/drover/core/agentlog"
)

func TestAReloadThatIsAskedForDuringTheStartIsDoneAfterIt(t *testing.T) {
	o := newOptions()
	o.dev = true
	log, err := agentlog.Open("agent", io.Discard, agentlog.Options{Level: "INFO"})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{options: o, log: log}
	if p.begin(nil) {
		t.Error("a reload is to be done that nobody asked for")
	}
	if err := p.reload(); err != nil {
		t.Fatal(err)
	}
	if !p.begin(nil) {
		t.Error("the reload is forgotten")
	}
}
