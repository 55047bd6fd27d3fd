// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build unix

package checks_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/agent/checks"
	"github.com/drover-project/drover/core/model"
)

const servesEnv = "DROVER_CHECKS_SERVE"

// TestServe is the process that BenchmarkThousandChecks asks.
func TestServe(t *testing.T) {
	if os.Getenv(servesEnv) == "" {
		t.Skip("only for BenchmarkThousandChecks")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println("listens on", l.Addr())
	go func() { // until the benchmark closes its end
		os.Stdin.Read(make([]byte, 1))
		l.Close()
	}()
	http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func serve(b *testing.B) (address string) {
	b.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestServe$")
	cmd.Env = append(os.Environ(), servesEnv+"=1")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { stdin.Close(); cmd.Wait() })
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "listens on "); ok {
			return at
		}
	}
	b.Fatal("the process does not serve")
	return ""
}

// cpu is the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkThousandChecks runs 1,000 checks at an interval of 1 s, and reports which part
// of a core that takes. What answers them is another process.
func BenchmarkThousandChecks(b *testing.B) {
	const n, seconds = 1000, 20
	for _, kind := range []string{"none", "tcp", "http"} {
		b.Run(kind, func(b *testing.B) {
			address := serve(b)
			cfg := checks.Config{Now: time.Now, Jitter: rand.Float64, Logger: hclog.NewNullLogger()}
			node := checks.New(cfg)
			defer node.Close()
			var o owner
			for i := range n / 2 { // two to an alloc
				var specs []checks.Spec
				for j := range 2 {
					c := &model.ServiceCheck{Type: kind, Path: "/", Interval: time.Second, Timeout: time.Second}
					s := spec(fmt.Sprint(i, j), "web/1", c)
					s.Resolve = func() (checks.Target, error) { return checks.Target{Check: c, Address: address}, nil }
					specs = append(specs, s)
				}
				node.Open(&o).Want(specs, nil)
			}
			time.Sleep(2 * time.Second)
			before, begin := cpu(), time.Now()
			time.Sleep(seconds * time.Second)
			b.ReportMetric(100*float64(cpu()-before)/float64(time.Since(begin)), "%core")
			b.ReportMetric(0, "ns/op")
		})
	}
}
