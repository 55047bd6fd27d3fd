// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"

	"github.com/drover-project/drover/sdk/errdefs"
)

// absent is a command of the reference that cannot do here what it does there:
// it takes its arguments and flags, and says why and what to do instead. Help and
// completion do not offer it (see Hidden).
func absent(s spec, why string, flags func(fs *flag.FlagSet)) func() spec {
	s.setup = func(fs *flag.FlagSet) run {
		if flags != nil {
			flags(fs)
		}
		return func(context.Context, *session, []string) error { return errdefs.Unimplementedf("%s", why) }
	}
	return func() spec { return s }
}

const noIdentities = "this works once there is access control, which there is not yet: nodes have no identities that expire: a node proves itself by the secret in its data directory, and a new one joins by registering"

// absentCommands are in the table so that scripts get a reason, not "unknown command".
func absentCommands() map[string]func() spec {
	return map[string]func() spec{
		"alloc pause": absent(spec{
			usage: "alloc pause [options] <allocation> <task>", synopsis: "Pauses tasks that run by a schedule; no task here does", min: 1, max: 2, takes: "allocs",
		}, "this works once schedule blocks of tasks are acted on, which they are not yet: stop the allocation or scale its group instead", func(fs *flag.FlagSet) {
			fs.String("state", "", "The schedule state to set.")
			fs.Bool("status", false, "Shows the schedule state.")
			fs.String("task", "", "Only this task.")
		}),
		"node identity get": absent(spec{
			usage: "node identity get [options] <node_id>", synopsis: "Shows the identity of a node; nodes here have a secret instead", min: 1, max: 1, output: true, takes: "nodes",
		}, noIdentities, nil),
		"node identity renew": absent(spec{
			usage: "node identity renew [options] <node_id>", synopsis: "Renews the identity of a node; nodes here have a secret instead", min: 1, max: 1, takes: "nodes",
		}, noIdentities, nil),
		"node intro create": absent(spec{
			usage: "node intro create [options]", synopsis: "Makes a token by which a node may join; nodes here need none", output: true,
		}, noIdentities, func(fs *flag.FlagSet) {
			fs.String("node-name", "", "The name of the node.")
			fs.String("node-pool", "", "The pool of the node.")
			fs.String("ttl", "", "How long the token is good for.")
		}),
		"operator raft migrate-backend": absent(spec{
			usage: "operator raft migrate-backend <path to data dir>", synopsis: "Moves a server's log to another store; there is one only", min: 1, max: 1, offline: true, takes: takesFiles,
		}, "there is nothing to move: the log of every server is on badger, the only store", func(fs *flag.FlagSet) {
			fs.Bool("yes", false, "Answers yes to the question.")
		}),
		"operator snapshot redact": absent(spec{
			usage: "operator snapshot redact <file>", synopsis: "Removes keys from a snapshot; ours hold none that open anything", min: 1, max: 1, takes: takesFiles,
		}, "there is nothing to remove: a snapshot holds root keys only as they were sealed with a key that stays on its server", nil),
		"operator utilization": absent(spec{
			usage: "operator utilization [options]", synopsis: "Makes a report of use for a licence; there is none to report to",
		}, "there is no licence and nobody to report use to; operator metrics and node status show what is used", func(fs *flag.FlagSet) {
			fs.String("message", "", "A text for the report.")
			fs.String("output", "", "Where to write the report.")
			fs.Bool("today-only", false, "Only of today.")
		}),
	}
}
