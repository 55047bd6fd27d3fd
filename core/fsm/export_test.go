// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

// NewCommand returns an empty command of the kind, nil if there is none.
var NewCommand = newCommand

// LevelOf returns the level of a kind of commands, and PackedForm the type in which the
// log holds a command.
func LevelOf(c Command) int { return commands[c.kind()].level }

func PackedForm(c Command) any {
	if p, ok := c.(packed); ok {
		return p.packedForm()
	}
	return c
}

// Kind returns the number of a command.
func Kind(c Command) byte { return c.kind() }

// Needing reports whether some contents of a command need a higher level than others.
func Needing(c Command) bool {
	_, ok := c.(needing)
	return ok
}

// UsualForms returns the forms of reports that every server knows.
func UsualForms() [][]byte { return usualForms().bytes }
