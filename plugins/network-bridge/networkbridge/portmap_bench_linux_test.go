// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// The ports of BenchmarkPortMap: on the machine, and in the alloc for a stream of bytes and
// for single bytes that come back.
const (
	streamPort, echoPort     = 31000, 31001
	streamInside, echoInside = 8080, 8081
)

// BenchmarkPortMap sends from one alloc to another: at its own address, through the ports of
// the machine as this plugin maps them, alone and beside 1,000 ports of others, and through
// the two rules of nftables that a person would write for it. It reports what one connection
// carries, how long a byte takes there and back, and how long a new connection does.
func BenchmarkPortMap(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("networks are made by root")
	}
	bridge := fmt.Sprintf("drp%d", os.Getpid())
	defer func() { _ = exec.Command("ip", "link", "del", bridge).Run() }()
	n := networkbridge.New(b.TempDir())
	config := fmt.Sprintf(`{"bridge_network_name": %q, "bridge_network_subnet": "10.219.0.0/20"}`, bridge)
	if err := n.SetConfig(b.Context(), []byte(config)); err != nil {
		b.Fatal(err)
	}
	create := func(id string, ports ...network.Port) *network.Attachment {
		b.Helper()
		a, err := n.Create(b.Context(), network.Request{AllocID: id, Network: "bridge", Ports: ports})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := n.Destroy(context.Background(), id); err != nil {
				b.Error(err)
			}
		})
		return a
	}
	server := create("server", network.Port{Label: "stream", HostPort: streamPort, Port: streamInside}, network.Port{Label: "echo", HostPort: echoPort, Port: echoInside})
	from := create("client").Path
	accept(b, server.Path, streamInside, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	accept(b, server.Path, echoInside, func(c net.Conn) { _, _ = io.Copy(c, c) })
	own, _, _ := strings.Cut(server.Addresses[0].Prefix, "/")
	machine := server.Addresses[0].Gateway
	b.Run("direct", func(b *testing.B) { carry(b, from, own, streamInside, echoInside) })
	b.Run("plugin, 2 ports", func(b *testing.B) { carry(b, from, machine, streamPort, echoPort) })
	others := slices.Repeat([]network.Port{{Label: "other", Port: 80}}, 1000)
	for i := range others {
		others[i].HostPort = 32000 + i
	}
	create("others", others...)
	b.Run("plugin, 1002 ports", func(b *testing.B) { carry(b, from, machine, streamPort, echoPort) })
	// From here on the plugin's table is gone: only the machine's rules count.
	rules := fmt.Sprintf(`delete table ip drover-%[1]s
table ip plain-%[1]s {
	chain pre { type nat hook prerouting priority dstnat; ip daddr %[2]s tcp dport %[3]d dnat to %[4]s:%[5]d; ip daddr %[2]s tcp dport %[6]d dnat to %[4]s:%[7]d; }
	chain post { type nat hook postrouting priority srcnat; ip saddr 10.219.0.0/20 ip daddr %[4]s masquerade; }
}
`, bridge, machine, streamPort, own, streamInside, echoPort, echoInside)
	plain := exec.Command("nft", "-f", "-")
	plain.Stdin = strings.NewReader(rules)
	if out, err := plain.CombinedOutput(); err != nil {
		b.Fatalf("%s\n%s", out, rules)
	}
	defer func() { _ = exec.Command("nft", "delete", "table", "ip", "plain-"+bridge).Run() }()
	b.Run("plain nftables", func(b *testing.B) { carry(b, from, machine, streamPort, echoPort) })
}

// accept serves connections to a port of a namespace until the benchmark ends.
func accept(b *testing.B, path string, port int, serve func(net.Conn)) {
	b.Helper()
	var l net.Listener
	if err := inside(b, path, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
}

// carry measures connections from a namespace to two ports of an address.
func carry(b *testing.B, from, host string, stream, echo int) {
	const bytes, rounds, connections = 1 << 30, 20000, 2000
	dial := func(port int) net.Conn {
		b.Helper()
		var c net.Conn
		if err := inside(b, from, func() (err error) {
			c, err = net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", host, port), 5*time.Second)
			return err
		}); err != nil {
			b.Fatal(err)
		}
		return c
	}
	for b.Loop() {
		c := dial(stream)
		block := make([]byte, 128<<10)
		begin := time.Now()
		for range bytes / len(block) {
			if _, err := c.Write(block); err != nil {
				b.Fatal(err)
			}
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			b.Fatal(err)
		}
		_, _ = c.Read(block) // the end, once the other side has everything
		b.ReportMetric(bytes/1e9*8/time.Since(begin).Seconds(), "Gbit/s")
		c.Close()

		c = dial(echo)
		took := make([]time.Duration, rounds)
		for i := range took {
			begin := time.Now()
			if _, err := c.Write(block[:1]); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(c, block[:1]); err != nil {
				b.Fatal(err)
			}
			took[i] = time.Since(begin)
		}
		c.Close()
		percentiles(b, "byte", took)
		took = took[:0]
		if err := inside(b, from, func() error { // on one thread, which is in the namespace already
			for range connections {
				begin := time.Now()
				c, err := net.DialTimeout("tcp4", fmt.Sprintf("%s:%d", host, echo), 5*time.Second)
				if err != nil {
					return err
				}
				took = append(took, time.Since(begin))
				c.Close()
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		percentiles(b, "connection", took)
		b.ReportMetric(0, "ns/op")
	}
}

func percentiles(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, what+"-p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, what+"-p99-us")
}
