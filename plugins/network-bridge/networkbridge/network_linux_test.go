// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/network-bridge/networkbridge"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networktest"
)

// bed is a plugin with a bridge of its own.
type bed struct {
	t      *testing.T
	dir    string
	bridge string
	config map[string]any
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("networks are made by root")
	}
	n := os.Getpid() % 200
	b := &bed{t: t, dir: t.TempDir(), bridge: fmt.Sprintf("drt%d", os.Getpid())}
	b.config = map[string]any{
		"bridge_network_name": b.bridge, "bridge_network_subnet": fmt.Sprintf("10.213.%d.0/28", n),
		"bridge_network_subnet_ipv6": fmt.Sprintf("fd00:d70:%x::/64", n),
	}
	t.Cleanup(func() { // ended networks are gone; the bridge is the machine's
		_ = exec.Command("ip", "link", "del", b.bridge).Run()
	})
	return b
}

// fresh returns a plugin as a process that has just started.
func (b *bed) fresh() *networkbridge.Network {
	b.t.Helper()
	n := networkbridge.New(b.dir)
	b.t.Cleanup(func() { n.Settle(context.Background()) })
	if err := n.SetConfig(b.t.Context(), b.body()); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// body is the config as the host sends it.
func (b *bed) body() []byte {
	b.t.Helper()
	accepts := networkbridge.New(b.dir).Info().ConfigSchema
	full, err := accepts.Apply(b.config)
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		b.t.Fatal(err)
	}
	return body
}

func (b *bed) create(n *networkbridge.Network, id string, ports ...network.Port) *network.Attachment {
	b.t.Helper()
	a, err := n.Create(b.t.Context(), network.Request{AllocID: id, Network: "bridge", Ports: ports})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := n.Destroy(context.Background(), id); err != nil {
			b.t.Error(err)
		}
	})
	return a
}

func TestContract(t *testing.T) {
	b := newBed(t)
	binary := filepath.Join(t.TempDir(), "network-bridge")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	networktest.Run(t, networktest.Options{
		New:    func(t *testing.T) network.Network { return networkbridge.New(b.dir) },
		Binary: binary, Dir: t.TempDir(), Config: b.config,
	})
}

// inside calls f on a thread in a namespace.
func inside(t testing.TB, path string, f func() error) error {
	t.Helper()
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if err := netns.Set(ns); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}

// serve answers connections to a port of a namespace with a word, until the test ends.
func serve(t *testing.T, path string, port int, word string) {
	t.Helper()
	var l net.Listener
	if err := inside(t, path, func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf(":%d", port))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, word)
			c.Close()
		}
	}()
}

func ask(address string) (string, error) {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	body, err := io.ReadAll(c)
	return string(body), err
}

func machineAddress(t *testing.T) string {
	t.Helper()
	c, err := net.Dial("udp", "192.0.2.1:9") // sends nothing
	if err != nil {
		t.Skip("the machine has no route")
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).IP.String()
}

func TestAPortAnswersOnTheMachinesAddressOnLoopbackAndFromOtherAllocs(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	const port = 29480
	a := b.create(n, "a", network.Port{Label: "http", HostPort: port, Port: 8080})
	c := b.create(n, "c")
	serve(t, a.Path, 8080, "hello")
	own, _, _ := strings.Cut(a.Addresses[0].Prefix, "/")
	machine := machineAddress(t)
	check := func(from string, dial func() (string, error)) {
		t.Helper()
		if word, err := dial(); word != "hello" || err != nil {
			t.Errorf("from %s: %q, %v", from, word, err)
		}
	}
	to := func(host string, port int) func() (string, error) {
		return func() (string, error) { return ask(net.JoinHostPort(host, fmt.Sprint(port))) }
	}
	from := func(path string, dial func() (string, error)) func() (string, error) {
		return func() (word string, err error) {
			err = inside(t, path, func() (err error) { word, err = dial(); return err })
			return word, err
		}
	}
	check("the machine, by the alloc's address", to(own, 8080))
	check("the machine, by its address", to(machine, port))
	check("the machine, by loopback", to("127.0.0.1", port))
	check("another alloc, by the alloc's address", from(c.Path, to(own, 8080)))
	check("another alloc, by the machine's address", from(c.Path, to(machine, port)))
	check("its own loopback", from(a.Path, to("127.0.0.1", 8080)))
	if word, err := from(c.Path, to("127.0.0.1", 8080))(); err == nil {
		t.Errorf("the loopback of another alloc answers %q", word)
	}
	if err := n.Destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if word, err := ask(fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Errorf("the port of a destroyed network answers %q", word)
	}
}

// TestWhatIsGoneIsMadeAgainWithTheSameAddress damages a network in every way that a
// reboot, a kill or an operator can.
func TestWhatIsGoneIsMadeAgainWithTheSameAddress(t *testing.T) {
	b := newBed(t)
	const port = 29481
	p := network.Port{Label: "http", HostPort: port, Port: 8080}
	a := b.create(b.fresh(), "a", p)
	run := func(args ...string) func() error {
		return func() error {
			if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %s", args, out)
			}
			return nil
		}
	}
	for what, damage := range map[string]func() error{
		"the bridge":    run("ip", "link", "del", b.bridge),
		"the namespace": func() error { return unix.Unmount(a.Path, unix.MNT_DETACH) },
		"the address":   func() error { return inside(t, a.Path, run("ip", "address", "flush", "dev", "eth0")) },
		"the link":      func() error { return inside(t, a.Path, run("ip", "link", "del", "eth0")) },
		"the rules":     run("nft", "delete", "table", "ip", "drover-"+b.bridge),
	} {
		if err := damage(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := b.fresh()
		if what != "the bridge" { // an alloc without it still has its interface
			if _, err := n.Inspect(t.Context(), "a"); !errdefs.IsFailedPrecondition(err) {
				t.Errorf("%s is gone, and Inspect says %v", what, err)
			}
		}
		again := b.create(n, "a", p)
		if again.Addresses[0] != a.Addresses[0] {
			t.Errorf("%s was made again with the address %s, want %s", what, again.Addresses[0], a.Addresses[0])
		}
		func() {
			var l net.Listener
			if err := inside(t, a.Path, func() (err error) { l, err = net.Listen("tcp4", ":8080"); return err }); err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), 5*time.Second)
			if err != nil {
				t.Errorf("%s was made again, and the port does not answer: %v", what, err)
				return
			}
			c.Close()
		}()
	}
}

func TestTheBridgeKeepsItsHardwareAddressWhileAllocsComeAndEnd(t *testing.T) {
	b := newBed(t)
	address := func() string {
		t.Helper()
		link, err := net.InterfaceByName(b.bridge)
		if err != nil {
			t.Fatal(err)
		}
		return link.HardwareAddr.String()
	}
	round := func(t *testing.T, n *networkbridge.Network) {
		b.create(n, "stays")
		before := address()
		if before == "00:00:00:00:00:00" {
			t.Fatal("it has none")
		}
		for i := range 8 { // the lowest address of a port is seldom that of the first
			b.create(n, fmt.Sprint("a", i))
			if now := address(); now != before {
				t.Fatalf("it was %s, and is %s with %d more allocs", before, now, i+1)
			}
		}
		for i := range 8 {
			if err := n.Destroy(t.Context(), fmt.Sprint("a", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.Destroy(t.Context(), "stays"); err != nil {
			t.Fatal(err)
		}
		if now := address(); now != before {
			t.Errorf("it was %s, and is %s without allocs", before, now)
		}
	}
	t.Run("of a bridge that it makes", func(t *testing.T) { round(t, b.fresh()) })
	if err := exec.Command("ip", "link", "del", b.bridge).Run(); err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("ip", "link", "add", b.bridge, "type", "bridge").Run(); err != nil {
		t.Fatal(err)
	}
	t.Run("of a bridge that was there", func(t *testing.T) { round(t, b.fresh()) })
}

// Others keep the hardware address of an address for up to a minute.
func TestTheNextAllocOfAnAddressHasItsHardwareAddress(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	seen := map[string]string{}
	for _, id := range []string{"first", "second"} {
		var a *network.Attachment
		for { // the address of the first is given out again as soon as nothing is translated to it
			var err error
			if a, err = n.Create(t.Context(), network.Request{AllocID: id, Network: "bridge"}); err != nil {
				t.Fatal(err)
			}
			if id == "first" || seen[a.Addresses[0].Prefix] != "" {
				break
			}
			if err := n.Destroy(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		var link *net.Interface
		if err := inside(t, a.Path, func() (err error) {
			link, err = net.InterfaceByName(a.Interface)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if before := seen[a.Addresses[0].Prefix]; before != "" && before != link.HardwareAddr.String() {
			t.Errorf("%s was at %s and is at %s", a.Addresses[0].Prefix, before, link.HardwareAddr)
		}
		seen[a.Addresses[0].Prefix] = link.HardwareAddr.String()
		if err := n.Destroy(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANamespaceWithoutIPv6GetsItWithTheNetwork(t *testing.T) {
	b := newBed(t)
	name := b.bridge + "-six"
	if out, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	path := "/run/netns/" + name
	err := inside(t, path, func() error { // as docker makes them
		return errors.Join(os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0), os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0))
	})
	if err != nil {
		t.Fatal(err)
	}
	n := b.fresh()
	if _, err := n.Create(t.Context(), network.Request{AllocID: "six", Network: "bridge", Path: path}); err != nil {
		t.Fatal(err)
	}
	if err := inside(t, path, func() error {
		l, err := net.Listen("tcp", "[::1]:0")
		if err == nil {
			err = l.Close()
		}
		return err
	}); err != nil {
		t.Errorf("its loopback: %v", err)
	}
	if err := n.Destroy(t.Context(), "six"); err != nil {
		t.Error(err)
	}
}

func TestASubnetThatIsFullIsSaid(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	var err error
	made := 0
	for i := range 16 {
		id := fmt.Sprintf("full-%d", i)
		if _, err = n.Create(t.Context(), network.Request{AllocID: id, Network: "bridge"}); err != nil {
			break
		}
		made++
		defer func() {
			if err := n.Destroy(t.Context(), id); err != nil {
				t.Error(err)
			}
		}()
	}
	if made != 13 || !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "use a larger bridge_network_subnet,") { // 16 without the network, the bridge and the broadcast address
		t.Errorf("%d allocs got an address of a /28, and then %v", made, err)
	}
}

func TestNothingIsLeft(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	a := b.create(n, "a", network.Port{Label: "http", HostPort: 29482, Port: 80})
	if err := n.Destroy(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(a.Path); !os.IsNotExist(err) {
		t.Errorf("the namespace: %v", err)
	}
	links, _ := exec.Command("ip", "-o", "link", "show", "master", b.bridge).CombinedOutput()
	if len(links) > 0 {
		t.Errorf("links of the bridge: %s", links)
	}
	rules, _ := exec.Command("nft", "list", "tables").CombinedOutput()
	if strings.Contains(string(rules), b.bridge) {
		t.Errorf("tables of nftables: %s", rules)
	}
}

func TestConfigsThatCannotWorkAreRefused(t *testing.T) {
	for _, body := range []string{
		`{"bridge_network_name":"much too long a name","bridge_network_subnet":"10.0.0.0/24"}`, `{"bridge_network_name":"","bridge_network_subnet":"10.0.0.0/24"}`,
		`{"bridge_network_name":"a/b","bridge_network_subnet":"10.0.0.0/24"}`, `{"bridge_network_name":"a","bridge_network_subnet":"10.0.0.0/31"}`,
		`{"bridge_network_name":"a","bridge_network_subnet":"fd00::/64"}`, `{"bridge_network_name":"a","bridge_network_subnet":"10.0.0.0/24","bridge_network_subnet_ipv6":"10.0.0.0/24"}`,
		`{"bridge_network_name":"a","bridge_network_subnet":"x"}`, `{"bridge_network_name":"a","bridge_network_subnet":"127.3.0.0/24"}`,
		`{"bridge_network_name":"a","bridge_network_subnet":"224.0.0.0/24"}`, `{"bridge_network_name":"a","bridge_network_subnet":"10.0.0.0/24","bridge_network_subnet_ipv6":"ff02::/64"}`,
	} {
		if err := networkbridge.New("/nonexistent").SetConfig(t.Context(), []byte(body)); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%s: %v, want InvalidArgument", body, err)
		}
	}
}

// The kernel answers each rule of a transaction, and its default buffer holds 200 KB of answers.
func TestAThousandPortsAreMappedAtOnce(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	ports := make([]network.Port, 1000)
	for i := range ports {
		ports[i] = network.Port{Label: fmt.Sprint("p", i), HostPort: 40000 + i, Port: 80}
	}
	a := b.create(n, "many", ports...)
	if len(a.Ports) != len(ports) {
		t.Errorf("%d ports lead to the alloc", len(a.Ports))
	}
	if _, err := n.Inspect(t.Context(), "many"); err != nil {
		t.Error(err)
	}
	serve(t, a.Path, 80, "here")
	if got, err := ask("127.0.0.1:40999"); got != "here" {
		t.Errorf("the last port answers %q, %v", got, err)
	}
}

// look returns what a plugin offers.
func look(t *testing.T, n *networkbridge.Network) network.Fingerprint {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	all, err := n.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return <-all
}

// other gives the machine another interface with an address, and returns its name.
func other(t *testing.T, address string) (name string, remove func()) {
	t.Helper()
	name = fmt.Sprintf("dro%d", os.Getpid())
	remove = func() { _ = exec.Command("ip", "link", "del", name).Run() } // it may be gone
	t.Cleanup(remove)
	for _, args := range [][]string{{"link", "add", name, "type", "bridge"}, {"addr", "add", address, "dev", name}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %q: %s", args, out)
		}
	}
	return name, remove
}

func TestASubnetThatAnotherInterfaceHasIsRefusedWithItsName(t *testing.T) {
	b := newBed(t)
	four, six := b.config["bridge_network_subnet"].(string), b.config["bridge_network_subnet_ipv6"].(string)
	for address, key := range map[string]string{
		strings.TrimSuffix(four, "0/28") + "9/30":  "choose another bridge_network_subnet,",
		strings.TrimSuffix(four, "0/28") + "14/24": "choose another bridge_network_subnet,", // wider, with its own address in it
		strings.TrimSuffix(six, "/64") + "9:1/112": "choose another bridge_network_subnet_ipv6,",
	} {
		name, remove := other(t, address)
		n := b.fresh()
		_, err := n.Create(t.Context(), network.Request{AllocID: "a", Network: "bridge"})
		if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", address, err)
		}
		if f := look(t, n); !slices.Equal(f.Networks, []string{"none"}) || f.Problem != err.Error() {
			t.Errorf("%s: offered %q with the problem %q", address, f.Networks, f.Problem)
		}
		if ids, err := n.List(t.Context()); err != nil || len(ids) > 0 {
			t.Errorf("left of a network that was refused: %q, %v", ids, err)
		}
		remove()
		if f := look(t, n); !slices.Equal(f.Networks, []string{"bridge", "none"}) || f.Problem != "" {
			t.Errorf("without %s offered %q with the problem %q", address, f.Networks, f.Problem)
		}
	}
}

func TestANetworkThatOverlapsLaterIsStillRepairedAndNoneIsAdded(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	b.create(n, "a")
	other(t, strings.TrimSuffix(b.config["bridge_network_subnet"].(string), "0/28")+"9/30")
	b.create(n, "a")
	if _, err := n.Create(t.Context(), network.Request{AllocID: "c", Network: "bridge"}); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("another alloc: %v", err)
	}
	if f := look(t, n); !slices.Equal(f.Networks, []string{"bridge", "none"}) || !strings.Contains(f.Problem, "overlaps") {
		t.Errorf("offered %q with the problem %q", f.Networks, f.Problem)
	}
}

func TestASubnetInsideOfAWiderNetworkIsTold(t *testing.T) {
	b := newBed(t)
	name, _ := other(t, strings.TrimSuffix(b.config["bridge_network_subnet"].(string), "0/28")+"200/24")
	n := b.fresh()
	if f := look(t, n); !slices.Equal(f.Networks, []string{"bridge", "none"}) || !strings.Contains(f.Problem, name) {
		t.Errorf("offered %q with the problem %q", f.Networks, f.Problem)
	}
	b.create(n, "a")
}

// While the first of them makes the bridge, the others must not take it for somebody else's.
func TestTheFirstNetworksOfABridgeAreMadeAtOnce(t *testing.T) {
	b := newBed(t)
	n := b.fresh()
	var calls sync.WaitGroup
	for i := range 12 {
		calls.Go(func() {
			id := fmt.Sprintf("at-once-%d", i)
			_, err := n.Create(t.Context(), network.Request{AllocID: id, Network: "bridge"})
			if err := errors.Join(err, n.Destroy(context.Background(), id)); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
}
