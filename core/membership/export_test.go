// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package membership

import (
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/serf/serf"
)

// Queued returns the number of questions that wait to be sent.
func (m *Membership) Queued() string { return m.serf.Stats()["query_queue"] }

// AskedWhileStarting gives a membership that has not started yet a question, and returns
// once it is done with it.
func AskedWhileStarting(answer func(question string) []byte) {
	m := &Membership{
		cfg: Config{Answer: answer}, events: make(chan serf.Event), stop: make(chan struct{}), done: make(chan struct{}),
		ready: make(chan struct{}), changed: make(chan struct{}),
	}
	go m.watch()
	m.events <- &serf.Query{Name: "progress"}
	m.events <- serf.MemberEvent{} // taken when the question is done with
	m.endWatch()
}

// Passes returns what logs a line of the library.
func Passes(logger hclog.Logger) func(line string) {
	q := newQuiet(logger)
	return func(line string) { _, _ = q.Write([]byte(line)) } // it never fails
}

// Passed is what is logged of lines of the library.
func Passed(logger hclog.Logger, lines ...string) {
	pass := Passes(logger)
	for _, line := range lines {
		pass(line)
	}
}
