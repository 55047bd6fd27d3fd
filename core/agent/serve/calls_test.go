// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func TestADriverThatHangsIsNamedBeforeServersGiveUpOnTheNode(t *testing.T) {
	const serversWait = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := inTime(t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		if !errdefs.IsDeadlineExceeded(err) || !strings.HasPrefix(err.Error(), "the driver of the task has not answered within 20s") {
			t.Errorf("the error is %v", err)
		}
		if took := time.Since(begun); took >= serversWait {
			t.Errorf("the answer took %s", took)
		}
	})
}

func TestWhatADriverAnswersInTimeIsPassedOn(t *testing.T) {
	why := errdefs.FailedPreconditionf("no such process")
	if err := inTime(t.Context(), func(context.Context) error { return why }); err != why {
		t.Errorf("the error is %v", err)
	}
}
