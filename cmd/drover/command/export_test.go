// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"flag"
	"io"
	"maps"
	"slices"
	"testing"
	"time"
)

// Entry is a command as the CLI reference documents it.
type Entry struct {
	Name, Usage, Synopsis, Help string
	Aliases                     []string
	Flags                       []*flag.Flag // flags of this command only
	Offline                     bool
}

// Describe returns all commands, sorted by name.
func Describe() []Entry {
	all := specs()
	var out []Entry
	for _, name := range slices.Sorted(maps.Keys(all)) {
		sp := all[name]()
		e := Entry{Name: name, Usage: sp.usage, Synopsis: sp.synopsis, Help: sp.help, Offline: sp.offline}
		fs := flag.NewFlagSet(name, flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		(&common{}).declare(fs, sp, nil)
		sp.setup(fs)
		fs.VisitAll(func(f *flag.Flag) {
			if !sp.isGeneral(f.Name) {
				e.Flags = append(e.Flags, f)
			}
		})
		for _, alias := range slices.Sorted(maps.Keys(aliases)) {
			if aliases[alias] == name {
				e.Aliases = append(e.Aliases, alias)
			}
		}
		out = append(out, e)
	}
	return out
}

// GeneralFlags returns the flags that every command has that talks to an agent.
func GeneralFlags() []*flag.Flag {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	(&common{}).declare(fs, spec{}, nil)
	var out []*flag.Flag
	fs.VisitAll(func(f *flag.Flag) {
		if generalFlags[f.Name] {
			out = append(out, f)
		}
	})
	return out
}

// GroupSynopsis returns the description of a command group.
func GroupSynopsis(name string) string { return groups[name] }

// NewEscapeReader returns a reader that calls leave when the user enters the escape
// character.
func NewEscapeReader(in io.Reader, escape byte, leave func()) io.Reader {
	return &escapeReader{in: in, escape: escape, lineStart: true, leave: leave}
}

// LastLines returns the last n lines of data.
func LastLines(data []byte, n int) []byte {
	start, _ := startOfLines(data, n)
	return data[start:]
}

// BatchSize reads the -batch-size of job restart.
var BatchSize = batchSize

// RedactFile is redactFile.
var RedactFile = redactFile

// DownloadWithin sets the time for a download for one test.
func DownloadWithin(t *testing.T, limit time.Duration) {
	was := downloadWithin
	downloadWithin = limit
	t.Cleanup(func() { downloadWithin = was })
}
