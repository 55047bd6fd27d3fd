// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/internal/testkit"
)

// TestWritesOfThreeServers prints how many writes of variables 64 clients have acknowledged
// per second, through a follower and through the leader, of three servers in this process,
// with logs on disk and raft over TCP. Clients and servers share the processors.
//
//	DROVER_BENCH_WRITES=1 go test ./bench -run WritesOfThreeServers -v
func TestWritesOfThreeServers(t *testing.T) {
	if os.Getenv("DROVER_BENCH_WRITES") == "" {
		t.Skip("DROVER_BENCH_WRITES is not set: this is a measurement")
	}
	servers := testkit.NewServers(t, 3)
	leader, follower := servers.Leader(), servers.Follower()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for round := range 2 {
		for _, through := range []struct {
			name string
			url  string
		}{{"leader", leader.URL}, {"follower", follower.URL}} {
			var writers sync.WaitGroup
			var written atomic.Int64
			end := time.Now().Add(10 * time.Second)
			for w := range 64 {
				writers.Go(func() {
					for i := 0; time.Now().Before(end); i++ {
						r, err := http.NewRequest(http.MethodPut, fmt.Sprintf("%s/v1/var/w/%d/%d", through.url, w, i%10), strings.NewReader(`{"Items":{"k":"v"}}`))
						if err != nil {
							t.Error(err)
							return
						}
						answer, err := client.Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, answer.Body)
						answer.Body.Close()
						if answer.StatusCode != http.StatusOK {
							t.Errorf("a write was answered %s", answer.Status)
							return
						}
						written.Add(1)
					}
				})
			}
			writers.Wait()
			t.Logf("round %d, through the %s: %d writes a second", round, through.name, written.Load()/10)
		}
	}
}
