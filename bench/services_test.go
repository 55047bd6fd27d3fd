// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bench_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/drover-project/drover/core/agent/mounts"
	"github.com/drover-project/drover/internal/testkit"
)

// changes is the number of changes that BenchmarkServiceChange makes.
const changes = 100

// BenchmarkServiceChange measures how long a change of a service takes to reach those who
// follow it, on one agent of real binaries: a client that waits at the API, the file of a
// template of a running task, and the answer of the node's DNS server. A change is the removal
// of the registration by an operator, which is a write to the log and nothing else, and then an
// update of the job with another address, which is also planned and applied. The template waits
// for 1 ms.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench ServiceChange -benchtime 1x
func BenchmarkServiceChange(b *testing.B) {
	f := newFollowed(b, map[string]any{"Min": time.Millisecond, "Max": time.Second})
	for b.Loop() {
		removed, updated := map[string][]float64{}, map[string][]float64{}
		f.update(b, 1)
		for i := range changes {
			f.remove(b, removed)
			for who, took := range f.update(b, i+2) {
				updated[who] = append(updated[who], took)
			}
		}
		for change, all := range map[string]map[string][]float64{"removed": removed, "updated": updated} {
			for who, took := range all {
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2], change+"-"+who+"-p50-ms")
				b.ReportMetric(took[len(took)*99/100], change+"-"+who+"-p99-ms")
			}
		}
		b.ReportMetric(0, "ns/op")
	}
}

// BenchmarkServiceChangeAfterAQuietTime measures the same for 20 updates, each of which comes
// more than 5 s after the one before it, and a template without a wait.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench ServiceChangeAfterAQuietTime -benchtime 1x
func BenchmarkServiceChangeAfterAQuietTime(b *testing.B) {
	f := newFollowed(b, nil)
	for b.Loop() {
		f.update(b, 1)
		var took []float64
		for i := range 20 {
			time.Sleep(6 * time.Second)
			took = append(took, f.update(b, i+2)["template"])
		}
		slices.Sort(took)
		b.ReportMetric(took[len(took)/2], "template-p50-ms")
		b.ReportMetric(took[len(took)-1], "template-max-ms")
		b.ReportMetric(0, "ns/op")
	}
}

// followed is an agent whose service db is followed in three ways.
type followed struct {
	*agent
	file string // of the template
	dns  string // address of the node's server
	// index is that of the newest answer of the API.
	index string
}

// newFollowed starts the agent and a task with a template that has the wait, nil for none.
func newFollowed(b *testing.B, wait map[string]any) *followed {
	b.Helper()
	source := builtBinaries(b)
	data, err := os.MkdirTemp("", "drover-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { // after the agent has ended
		if err := errors.Join(mounts.Detach(data), os.RemoveAll(data)); err != nil { // secrets are mounts
			b.Log(err)
		}
	})
	port := testkit.FreePorts(b, 1)[0]
	f := &followed{dns: fmt.Sprintf("127.0.0.1:%d", port), index: "0"}
	f.agent = launch(b, copyBinaries(b, source), fmt.Sprintf(`data_dir = %q
bind_addr = "127.0.0.1"
server { enabled = true }
client {
  enabled           = true
  network_interface = "lo"
}
plugin "raw_exec" {
  config { enabled = true }
}
dns {
  enabled = true
  port    = %d
  rate    = 0
}
`, data, port))
	b.Cleanup(func() {
		f.del(b, "/v1/job/front?purge=true")
		f.del(b, "/v1/job/db?purge=true")
		f.waitLong(b, "the end of the tasks", func() bool { return f.tasks() == 0 })
	})
	f.mustPost(b, "/v1/jobs", jobOf("front", map[string]any{
		"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}},
		"Templates": []any{map[string]any{"DestPath": "local/db", "ChangeMode": "noop", "Wait": wait, "EmbeddedTmpl": `at{{ range nomadService "db" }} {{ .Address }}{{ end }};`}},
	}, nil))
	f.wait(b, "the file of the template", func() bool {
		found, err := filepath.Glob(filepath.Join(data, "alloc", "*", "t", "local", "db"))
		if err != nil || len(found) != 1 {
			return false
		}
		f.file = found[0]
		return true
	})
	return f
}

// jobOf is a service job of one task.
func jobOf(id string, task map[string]any, group map[string]any) map[string]any {
	task["Resources"] = map[string]any{"CPU": 2, "MemoryMB": 10}
	task["LogConfig"] = map[string]any{"MaxFiles": 1, "MaxFileSizeMB": 1}
	all := map[string]any{"Name": "g", "Count": 1, "EphemeralDisk": map[string]any{"SizeMB": 10}, "Tasks": []any{task}, "Update": map[string]any{"MaxParallel": 0}}
	for k, v := range group {
		all[k] = v
	}
	return map[string]any{"Job": map[string]any{"ID": id, "Name": id, "Type": "service", "Datacenters": []string{"*"}, "TaskGroups": []any{all}}}
}

// update gives the service another address and returns when who follows it knew, in ms.
func (f *followed) update(b *testing.B, n int) map[string]float64 {
	b.Helper()
	address := fmt.Sprintf("10.4.%d.%d", n/250, n%250+1)
	return f.follow(b, address, func() {
		f.mustPost(b, "/v1/jobs", jobOf("db",
			map[string]any{"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}}},
			map[string]any{"Services": []any{map[string]any{"Name": "db", "Provider": "nomad", "Address": address}}}))
	})
}

// remove removes the registration, and adds to took when who follows it knew.
func (f *followed) remove(b *testing.B, took map[string][]float64) {
	b.Helper()
	var list []struct{ ID string }
	if err := f.get("/v1/service/db", &list); err != nil || len(list) != 1 {
		b.Fatalf("%d registrations, %v", len(list), err)
	}
	for who, ms := range f.follow(b, "", func() { f.del(b, "/v1/service/db/"+url.PathEscape(list[0].ID)) }) {
		took[who] = append(took[who], ms)
	}
}

// follow makes a change and returns after how many ms each follower knew that the service has
// the address, or with "" that it is gone.
func (f *followed) follow(b *testing.B, address string, change func()) map[string]float64 {
	b.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	out := map[string]float64{}
	ready := make(chan struct{}, 3)
	begin := make(chan struct{})
	var began time.Time
	follow := func(who string, known func() (bool, error)) {
		all.Go(func() {
			ready <- struct{}{}
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				ok, err := known()
				now := time.Now()
				if err != nil {
					b.Errorf("%s: %v", who, err)
					break
				}
				if ok {
					<-begin
					mu.Lock()
					out[who] = ms(now.Sub(began))
					mu.Unlock()
					return
				}
			}
			b.Errorf("%s never knew of %q", who, address)
		})
	}
	follow("query", func() (bool, error) { return f.waited(address) })
	follow("template", func() (bool, error) {
		time.Sleep(500 * time.Microsecond)
		text, err := os.ReadFile(f.file)
		if address == "" {
			return string(text) == "at;", err
		}
		return string(text) == "at "+address+";", err
	})
	client := dns.Client{}
	follow("dns", func() (bool, error) {
		time.Sleep(500 * time.Microsecond)
		answer, _, err := client.Exchange(new(dns.Msg).SetQuestion("db.service.drover.", dns.TypeA), f.dns)
		if err != nil {
			return false, err
		}
		if address == "" {
			return len(answer.Answer) == 0, nil
		}
		return len(answer.Answer) == 1 && strings.HasSuffix(answer.Answer[0].String(), address), nil
	})
	for range 3 {
		<-ready
	}
	time.Sleep(20 * time.Millisecond) // so that the query waits
	began = time.Now()
	close(begin)
	change()
	all.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return out
}

// waited sends one request that waits for a change, and reports whether its answer has the
// address.
func (f *followed) waited(address string) (bool, error) {
	r, err := http.Get(f.url + "/v1/service/db?wait=60s&index=" + f.index)
	if err != nil {
		return false, err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return false, errors.New(r.Status)
	}
	list, err := decoded[struct{ Address string }](r.Body)
	f.index = r.Header.Get("X-Nomad-Index")
	if address == "" {
		return len(list) == 0, err
	}
	return len(list) == 1 && list[0].Address == address, err
}

// decoded reads a list in JSON.
func decoded[T any](r io.Reader) (out []T, err error) {
	err = json.NewDecoder(r).Decode(&out)
	return out, err
}

// BenchmarkServicesList measures the lists of 10,000 registrations of 250 running allocs.
//
//	DROVER_BENCH_BIN=$PWD/bin go test ./bench -run '^$' -bench ServicesList -benchtime 1x
func BenchmarkServicesList(b *testing.B) {
	const allocs, each = 250, 40
	a := startAgent(b, binariesOf(b))
	var services []any
	for i := range each {
		services = append(services, map[string]any{"Name": fmt.Sprintf("service-%d", i), "Provider": "nomad", "Tags": []string{"blue", "${NOMAD_ALLOC_INDEX}"}})
	}
	a.mustPost(b, "/v1/jobs", jobOf("many", map[string]any{
		"Name": "t", "Driver": "raw_exec", "Config": map[string]any{"command": "/bin/sleep", "args": []string{"3600"}},
	}, map[string]any{"Count": allocs, "Services": services}))
	a.waitLong(b, "10,000 registrations", func() bool {
		var list []struct{ ID string }
		return a.get("/v1/job/many/services", &list) == nil && len(list) == allocs*each
	})
	settle()
	for name, path := range map[string]string{"names": "/v1/services", "all-of-the-job": "/v1/job/many/services", "one-name": "/v1/service/service-7", "filtered": "/v1/service/service-7?filter=" + url.QueryEscape(`Tags contains "17"`)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				took, size := a.ask(b, path, false, 1, 100)
				slices.Sort(took)
				b.ReportMetric(took[len(took)/2], "p50-ms")
				b.ReportMetric(took[len(took)*99/100], "p99-ms")
				b.ReportMetric(float64(size), "bytes")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
	a.del(b, "/v1/job/many?purge=true")
	a.waitLong(b, "the end of the tasks", func() bool { return a.tasks() == 0 })
}
