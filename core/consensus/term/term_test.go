// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package term_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/drover-project/drover/core/consensus/term"
)

type log struct{ fails int }

func (l *log) Propose(context.Context, []byte) (uint64, any, error) {
	if l.fails--; l.fails >= 0 {
		return 0, nil, errors.New("the disk is slow")
	}
	return 7, nil, nil
}

func TestATermThatCouldNotBeWrittenIsTriedAgainAndTakesEffectOnlyThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var begun []string
		l := &log{fails: 3}
		b := term.Beginner{Log: l, NewID: func() string { return "id" }, Begun: func(id string) { begun = append(begun, id) }}
		if err := b.Once(t.Context()); err == nil || len(begun) != 0 {
			t.Fatalf("%v, begun %v", err, begun)
		}
		b.Retry(t.Context())
		if l.fails >= 0 || len(begun) != 1 || begun[0] != "id" {
			t.Errorf("begun %v", begun)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		b.Retry(ended) // returns
	})
}
