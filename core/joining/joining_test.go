// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package joining_test

import (
	"bytes"
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
