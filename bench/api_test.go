// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// listAllocs is the number of allocs in the list that BenchmarkList requests.
const listAllocs = 1000

// BenchmarkList measures GET /v1/allocations with 1,000 allocs on a dev agent of
// real binaries: 20 clients send 50 requests each, with gzip and without. The allocs
// need not run.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench List -benchtime 1x
func BenchmarkList(b *testing.B) {
	a := startAgent(b, binariesOf(b))
	a.fill(b, listAllocs)
	for _, zip := range []bool{false, true} {
		for path, name := range map[string]string{"/v1/allocations": "allocations", "/v1/allocations?resources=true&task_states=false": "resources"} {
			kind := "plain"
			if zip {
				kind = "gzip"
			}
			b.Run(name+"-"+kind, func(b *testing.B) {
				for b.Loop() {
					took, size := a.ask(b, path, zip, 20, 50)
					slices.Sort(took)
					b.ReportMetric(took[len(took)/2], "p50-ms")
					b.ReportMetric(took[len(took)*99/100], "p99-ms")
					b.ReportMetric(float64(size), "bytes")
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// fill creates n allocs of a batch job whose tasks end at once, so that they stay
// listed.
func (a *agent) fill(b *testing.B, n int) {
	b.Helper()
	body := fmt.Sprintf(`{"Job":{"ID":"many","Name":"many","Type":"batch","Datacenters":["*"],"TaskGroups":[{"Name":"g","Count":%d,"EphemeralDisk":{"SizeMB":10},
"RestartPolicy":{"Attempts":0,"Mode":"fail"},"ReschedulePolicy":{"Attempts":0},
"Tasks":[{"Name":"t","Driver":"raw_exec","Config":{"command":"/bin/true"},"Resources":{"CPU":1,"MemoryMB":10},"LogConfig":{"MaxFiles":1,"MaxFileSizeMB":1}}]}]}}`, n)
	r, err := http.NewRequest(http.MethodPut, a.url+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b.Fatalf("register: %s: %s", answer.Status, text)
	}
	a.wait(b, "the allocs", func() bool {
		var allocs []struct{ ClientStatus string }
		if a.get("/v1/allocations", &allocs) != nil || len(allocs) < n {
			return false
		}
		return !slices.ContainsFunc(allocs, func(x struct{ ClientStatus string }) bool { return x.ClientStatus != "complete" })
	})
}

// ask makes each client request a path the given number of times. It returns the
// duration of each request in ms and the size of an answer.
func (a *agent) ask(b *testing.B, path string, zip bool, clients, each int) (took []float64, size int64) {
	b.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer c.CloseIdleConnections()
			for range each {
				r, err := http.NewRequest(http.MethodGet, a.url+path, nil)
				if err != nil {
					b.Error(err)
					return
				}
				if zip {
					r.Header.Set("Accept-Encoding", "gzip")
				}
				begin := time.Now()
				answer, err := c.Do(r)
				if err != nil {
					b.Error(err)
					return
				}
				n, err := io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if err != nil || (answer.Header.Get("Content-Encoding") == "gzip") != zip {
					b.Errorf("%v, encoded as %q", err, answer.Header.Get("Content-Encoding"))
					return
				}
				mu.Lock()
				took, size = append(took, ms(time.Since(begin))), n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return took, size
}
