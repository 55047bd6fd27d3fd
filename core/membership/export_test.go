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

// Passed is what is logged of a line of the library.
func Passed(logger hclog.Logger, line string) {
	_, _ = newQuiet(logger).Write([]byte(line)) // it never fails
}
