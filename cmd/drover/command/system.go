// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
)

func systemGC() spec {
	return spec{
		usage: "system gc [options]", synopsis: "Runs garbage collection: removes ended jobs, evaluations, allocations and nodes from state",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error { return s.client.GarbageCollect(ctx) }
		},
	}
}

func reconcileSummaries() spec {
	return spec{
		usage: "system reconcile summaries [options]", synopsis: "Recounts the allocations in the summaries of all jobs",
		setup: func(*flag.FlagSet) run {
			return func(ctx context.Context, s *session, _ []string) error { return s.client.ReconcileSummaries(ctx) }
		},
	}
}

func version() spec {
	return spec{
		usage: "version", synopsis: "Prints the version", offline: true,
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, _ []string) error {
				s.printf("Drover v%s", s.Version)
				return nil
			}
		},
	}
}
