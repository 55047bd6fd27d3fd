// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/joining"
)

func TestWhyNothingIsJoinedIsLoggedOnceInFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var failed error
		j := joining.New(joining.Config{
			Gossip: &joining.Gossip{RetryJoin: []string{"10.0.0.1"}, RetryInterval: 10 * time.Second, RetryMax: 50},
			Fail:   func(err error) { failed = err }, Logger: hclog.New(&hclog.LoggerOptions{Output: &log}),
		})
		j.RetryJoin(t.Context()) // it does not gossip, so each try fails alike
		if failed == nil || !strings.Contains(failed.Error(), "in 50 tries") {
			t.Errorf("failed with %v", failed)
		}
		if text := log.String(); strings.Count(text, "could be joined") != 2 || !strings.Contains(text, "attempts=31") {
			t.Errorf("logged\n%s", text)
		}
	})
}

func TestAServerThatHasOnlyReachedItselfGoesOnLookingForOthers(t *testing.T) {
	for most, want := range map[int]int{0: 40, 20: 20} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			j := joining.New(joining.Config{
				Gossip: &joining.Gossip{RetryInterval: 10 * time.Second, RetryMax: most},
				Fail:   func(err error) { t.Errorf("it may be meant to be alone, but: %v", err) }, Logger: hclog.New(&hclog.LoggerOptions{Output: &log}),
			})
			tries := 0
			j.Retry(t.Context(), func(context.Context) error {
				if tries++; tries < 40 {
					return joining.ErrAlone
				}
				return nil
			})
			if tries != want || strings.Count(log.String(), "only this server itself") != 1 {
				t.Errorf("retry_max %d: %d tries, not %d; logged\n%s", most, tries, want, log.String())
			}
		})
	}
}
