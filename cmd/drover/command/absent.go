// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/sdk/errdefs"
)

// absent defines a command of the reference that Drover does not support. It accepts
// the arguments and flags of the reference, and fails with the reason and what to do
// instead. Help and completion do not offer it (see Hidden).
func absent(s spec, why string, flags func(fs *flag.FlagSet)) func() spec {
	s.setup = func(fs *flag.FlagSet) run {
		if flags != nil {
			flags(fs)
		}
		return func(context.Context, *session, []string) error { return errdefs.Unimplementedf("%s", why) }
	}
	return func() spec { return s }
}

// absentCommands returns the unsupported commands of the reference. They are in the
// table so that scripts get a reason instead of "unknown command".
func absentCommands() map[string]func() spec {
	return map[string]func() spec{
		"operator raft migrate-backend": absent(spec{
			usage: "operator raft migrate-backend <path to data dir>", synopsis: "Moves a server's log to another log store; badger is the only one", min: 1, max: 1, offline: true, takes: takesFiles,
		}, "there is nothing to migrate: badger is the only log store, and every server uses it", func(fs *flag.FlagSet) {
			fs.Bool("yes", false, "Answers yes to the prompt.")
		}),
		"operator snapshot redact": absent(spec{
			usage: "operator snapshot redact <file>", synopsis: "Removes key material from a snapshot; not needed, since snapshots hold only sealed keys", min: 1, max: 1, takes: takesFiles,
		}, "there is nothing to remove: the root keys in a snapshot are sealed with a key that never leaves its server", nil),
		"operator utilization": absent(spec{
			usage: "operator utilization [options]", synopsis: "Creates a utilization report for a licence; Drover needs no licence",
		}, "Drover needs no licence, so there is no report to create; for resource usage see: drover operator metrics, drover node status", func(fs *flag.FlagSet) {
			fs.String("message", "", "A message for the report.")
			fs.String("output", "", "Where to write the report.")
			fs.Bool("today-only", false, "Covers only today.")
		}),
	}
}
