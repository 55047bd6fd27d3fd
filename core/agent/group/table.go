// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package group

import "strings"

// always is the kind of transitions that need no event.
const always kind = ""

// transition is a row of the table: the effect of an event on a group in a phase.
type transition struct {
	from  Phase
	on    kind
	when  string // the condition in words, for the diagram
	holds func(*machine, Event) bool
	to    Phase
	do    func(*machine, Event) // the work in the new phase; may be nil
}

// transitions are all transitions. The first row that matches is applied; an event without
// a matching row changes nothing.
var transitions = []transition{
	{from: Pending, on: "Begin", to: Preparing, do: (*machine).begun},
	{from: Pending, on: "Stop", to: Over},

	{from: Preparing, on: always, when: "every step is prepared", holds: func(m *machine, _ Event) bool { return m.s.next() < 0 }, to: Ready, do: func(m *machine, _ Event) { m.s.WasReady = true }},
	{from: Preparing, on: "Prepared", when: "the next step begins", to: Preparing, do: (*machine).prepared},
	{from: Preparing, on: "Failed", when: "it may pass, and the restart policy allows another try", holds: (*machine).mayRetry, to: Backoff, do: (*machine).retry},
	{from: Preparing, on: "Failed", when: "for good", to: TearDown, do: (*machine).fail},
	{from: Preparing, on: "Stop", to: Cancelling, do: (*machine).cancel},

	{from: Backoff, on: "Wake", to: Preparing, do: (*machine).begun},
	{from: Backoff, on: "Stop", to: TearDown, do: (*machine).undo},

	{from: Cancelling, on: "Prepared", to: TearDown, do: (*machine).undo},
	{from: Cancelling, on: "Failed", to: TearDown, do: (*machine).undo},

	{from: Ready, on: "Stop", when: "all tasks are dead", to: TearDown, do: (*machine).undo},

	{from: TearDown, on: always, when: "nothing is left", holds: func(m *machine, _ Event) bool { return m.s.last() < 0 }, to: Over},
	{from: TearDown, on: "TornDown", when: "the step before it is next", to: TearDown, do: (*machine).tornDown},
	{from: TearDown, on: "TearDownFailed", when: "up to 5 times, or without end if the step insists", holds: (*machine).triesLeft, to: Lingering, do: (*machine).linger},
	{from: TearDown, on: "TearDownFailed", when: "for good: the step is abandoned", to: TearDown, do: (*machine).abandon},

	{from: Lingering, on: "Wake", to: TearDown, do: (*machine).undo},
}

// Diagram is the table of transitions as a state diagram of Mermaid.
func Diagram() string {
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> " + string(Pending) + ": received\n")
	for _, t := range transitions {
		words := string(t.on)
		if words != "" && t.when != "" {
			words += ", "
		}
		b.WriteString("    " + string(t.from) + " --> " + string(t.to) + ": " + words + t.when + "\n")
	}
	b.WriteString("    " + string(Over) + " --> [*]\n")
	return b.String()
}
