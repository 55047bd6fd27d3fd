// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/network-cni/networkcni"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
	"github.com/drover-project/drover/sdk/network/v1/networktest"
)

// bed is a plugin with directories of its own.
type bed struct {
	t                   *testing.T
	dir, programs, nets string
}

func newBed(t *testing.T) *bed {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("networks are made by root")
	}
	return &bed{t: t, dir: t.TempDir(), programs: t.TempDir(), nets: t.TempDir()}
}

// debian is where Debian keeps the standard programs.
const debian = "/usr/lib/cni"

// standard is a bed with the standard programs and a network "net" of a bridge with port
// maps.
func standard(t *testing.T) *bed {
	t.Helper()
	b := newBed(t)
	if _, err := os.Stat(filepath.Join(debian, "bridge")); err != nil {
		t.Skip("install containernetworking-plugins")
	}
	b.programs = debian
	n := os.Getpid() % 200
	bridge := fmt.Sprintf("drc%d", os.Getpid())
	b.config("10-net.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "net", "plugins": [
		{"type": "bridge", "bridge": %q, "isGateway": true, "ipMasq": true, "capabilities": {"ips": true},
		 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.214.%d.0/28"}]], "routes": [{"dst": "0.0.0.0/0"}], "dataDir": %q}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`, bridge, n, t.TempDir()))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", bridge).Run() })
	return b
}

func (b *bed) write(path, text string, mode os.FileMode) {
	b.t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) config(name, text string) { b.write(filepath.Join(b.nets, name), text, 0o600) }

// program writes a CNI program in shell. $CNI_COMMAND says what is asked.
func (b *bed) program(name, script string) {
	b.write(filepath.Join(b.programs, name), "#!/bin/sh\n"+script+"\n", 0o700)
}

func (b *bed) settings() map[string]any {
	return map[string]any{"cni_path": b.programs, "cni_config_dir": b.nets, "cni_gc": true}
}

// fresh returns a plugin as a process that has just started.
func (b *bed) fresh() *networkcni.Network {
	b.t.Helper()
	n := networkcni.New(b.dir)
	accepts := n.Info().ConfigSchema
	full, err := accepts.Apply(b.settings())
	if err != nil {
		b.t.Fatal(err)
	}
	body, err := json.Marshal(full)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := n.SetConfig(b.t.Context(), body); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bed) create(n *networkcni.Network, r network.Request) *network.Attachment {
	b.t.Helper()
	a, err := n.Create(b.t.Context(), r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		if err := n.Destroy(context.Background(), r.AllocID); err != nil {
			b.t.Error(err)
		}
	})
	return a
}

func (b *bed) fingerprint(n *networkcni.Network) network.Fingerprint {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	defer cancel()
	all, err := n.Fingerprint(ctx)
	if err != nil {
		b.t.Fatal(err)
	}
	return <-all
}

func TestContract(t *testing.T) {
	b := standard(t)
	binary := filepath.Join(t.TempDir(), "network-cni")
	if out, err := exec.Command("go", "build", "-o", binary, "..").CombinedOutput(); err != nil {
		t.Fatalf("build: %s", out)
	}
	networktest.Run(t, networktest.Options{
		New:    func(t *testing.T) network.Network { return networkcni.New(b.dir) },
		Binary: binary, Dir: t.TempDir(), Config: b.settings(),
	})
}

func TestTheStandardProgramsAreOfferedWithTheirVersions(t *testing.T) {
	b := standard(t)
	b.config("20-double.conf", `{"cniVersion": "1.0.0", "name": "net", "type": "loopback"}`)
	b.config("30-lacks.conf", `{"cniVersion": "1.0.0", "name": "lacks", "type": "not-installed"}`)
	b.config("40-bad.conflist", `{`)
	f := b.fingerprint(b.fresh())
	if !slices.Equal(f.Networks, []string{"cni/net"}) {
		t.Errorf("networks: %q", f.Networks)
	}
	for _, name := range []string{"bridge", "portmap", "host-local"} {
		if v := f.Attributes["plugins.cni.version."+name]; !strings.HasPrefix(v, "1.") {
			t.Errorf("version of %s: %q", name, v)
		}
	}
	for _, part := range []string{"20-double.conf: a file before it", `"not-installed" is not in cni_path`, "40-bad.conflist"} {
		if !strings.Contains(f.Problem, part) {
			t.Errorf("%q does not say %q", f.Problem, part)
		}
	}
}

// A namespace that is gone was lost in a reboot: the address is asked for again.
func TestAfterARebootTheNetworkHasItsAddressAgain(t *testing.T) {
	b := standard(t)
	n := b.fresh()
	b.create(n, network.Request{AllocID: "before", Network: "cni/net"})
	r := network.Request{AllocID: "web", Network: "cni/net", Ports: []network.Port{{Label: "http", HostPort: 28080, Port: 80}}}
	first := b.create(n, r)
	if err := n.Destroy(t.Context(), "before"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("umount", first.Path).CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	if _, err := n.Inspect(t.Context(), "web"); !errdefs.IsFailedPrecondition(err) {
		t.Errorf("without its namespace: %v", err)
	}
	again, err := b.fresh().Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if first.Addresses[0] != again.Addresses[0] || len(again.Ports) != 1 {
		t.Errorf("%+v became %+v", first, again)
	}
	if err := exec.Command("nsenter", "--net="+again.Path, "ip", "link", "del", "eth0").Run(); err != nil {
		t.Fatal(err)
	}
	repaired, err := b.fresh().Create(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if repaired.Addresses[0] != first.Addresses[0] {
		t.Errorf("repaired, it has %v", repaired.Addresses)
	}
}

// said is a program that writes down what it is asked, and answers an address.
const said = `cat > "$DIR/stdin.$CNI_COMMAND"; echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_ARGS" >> "$DIR/said"
case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.1.0", "supportedVersions": ["0.3.1", "1.0.0", "1.1.0"]}' ;;
ADD) nsenter --net="$CNI_NETNS" ip link add eth0 type bridge >&2 && nsenter --net="$CNI_NETNS" ip addr add 10.9.0.2/24 dev eth0 >&2
 echo '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "'$CNI_NETNS'"}], "ips": [{"interface": 0, "address": "10.9.0.2/24"}], "dns": {"nameservers": ["10.9.0.1"]}}' ;;
DEL) [ -z "$CNI_NETNS" ] || nsenter --net="$CNI_NETNS" ip link del eth0 2>/dev/null; true ;;
esac`

func (b *bed) said() string {
	body, _ := os.ReadFile(filepath.Join(b.dir, "said"))
	return string(body)
}

func TestArgumentsReachTheProgramsAndTheirResolverTheTask(t *testing.T) {
	b := newBed(t)
	b.program("says", strings.ReplaceAll(said, "$DIR", b.dir))
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "says", "type": "says"}`)
	n := b.fresh()
	a := b.create(n, network.Request{AllocID: "web", JobID: "a;b", Namespace: "default", Network: "cni/says", Args: map[string]string{"COLOUR": "red = warm"}, Ports: []network.Port{{HostPort: 80, Port: 80}}})
	if s := b.said(); !strings.Contains(s, "ADD web IgnoreUnknown=true;NOMAD_NAMESPACE=default;NOMAD_ALLOC_ID=web;COLOUR=red = warm\n") {
		t.Errorf("the program heard %q", s)
	}
	if a.DNS == nil || !slices.Equal(a.DNS.Servers, []string{"10.9.0.1"}) {
		t.Errorf("the resolver is %+v", a.DNS)
	}
	if len(a.Ports) != 0 {
		t.Errorf("ports %v are said to lead to the alloc, and no program maps them", a.Ports)
	}
	if _, err := n.Create(t.Context(), network.Request{AllocID: "x", Network: "cni/says", Args: map[string]string{"A": "b;CNI_COMMAND=DEL"}}); !errdefs.IsInvalidArgument(err) {
		t.Errorf("an argument with a semicolon: %v", err)
	}
	if _, err := n.Create(t.Context(), network.Request{AllocID: "x", Network: "cni/other"}); !errdefs.IsNotFound(err) {
		t.Errorf("an unknown network: %v", err)
	}
}

func TestAnAllocKeepsTheConfigurationWithWhichItsNetworkWasMade(t *testing.T) {
	b := newBed(t)
	b.program("says", strings.ReplaceAll(said, "$DIR", b.dir))
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "says", "type": "says", "mark": "old"}`)
	n := b.fresh()
	b.create(n, network.Request{AllocID: "web", Network: "cni/says"})
	if err := os.Remove(filepath.Join(b.nets, "a.conf")); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Create(t.Context(), network.Request{AllocID: "web", Network: "cni/says"}); err != nil {
		t.Errorf("a network that works, and whose configuration is gone: %v", err)
	}
	if err := n.Destroy(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	if in, _ := os.ReadFile(filepath.Join(b.dir, "stdin.DEL")); !strings.Contains(string(in), `"old"`) {
		t.Errorf("it was removed with %s", in)
	}
	if strings.Count(b.said(), "ADD") != 1 {
		t.Errorf("%s", b.said())
	}
}

func TestStatusAndGarbageCollectionOfVersion11(t *testing.T) {
	b := newBed(t)
	b.program("says", `if [ "$CNI_COMMAND" = STATUS ] && [ -e `+b.dir+`/down ]; then echo '{"cniVersion": "1.1.0", "code": 50, "msg": "no uplink"}'; exit 1; fi
`+strings.ReplaceAll(said, "$DIR", b.dir))
	b.config("a.conflist", `{"cniVersion": "1.1.0", "name": "says", "plugins": [{"type": "says"}]}`)
	n := b.fresh()
	b.create(n, network.Request{AllocID: "web", Network: "cni/says"})
	if f := b.fingerprint(n); !slices.Equal(f.Networks, []string{"cni/says"}) || f.Problem != "" {
		t.Errorf("%+v", f)
	}
	if in, _ := os.ReadFile(filepath.Join(b.dir, "stdin.GC")); !strings.Contains(string(in), `"cni.dev/valid-attachments":[{"containerID":"web","ifname":"eth0"}]`) {
		t.Errorf("the garbage collection was asked with %s", in)
	}
	b.write(filepath.Join(b.dir, "down"), "", 0o600)
	if f := b.fingerprint(n); len(f.Networks) != 0 || !strings.Contains(f.Problem, "no uplink") {
		t.Errorf("a network without an uplink: %+v", f)
	}
}

func TestANetworkThatCannotBeCollectedIsOffered(t *testing.T) {
	b := newBed(t)
	b.program("says", `if [ "$CNI_COMMAND" = GC ]; then echo '{"cniVersion": "1.1.0", "code": 999, "msg": "no collection"}'; exit 1; fi
`+strings.ReplaceAll(said, "$DIR", b.dir))
	b.config("a.conflist", `{"cniVersion": "1.1.0", "name": "says", "plugins": [{"type": "says"}]}`)
	if f := b.fingerprint(b.fresh()); !slices.Equal(f.Networks, []string{"cni/says"}) || !strings.Contains(f.Problem, "no collection") {
		t.Errorf("%+v", f)
	}
}

func TestNothingIsCollectedWhileANetworkIsMade(t *testing.T) {
	b := newBed(t)
	b.program("says", strings.ReplaceAll(strings.Replace(said, "ADD)", "ADD) until [ -e $DIR/go ]; do sleep 0.01; done;", 1), "$DIR", b.dir))
	b.config("a.conflist", `{"cniVersion": "1.1.0", "name": "says", "plugins": [{"type": "says"}]}`)
	n := b.fresh()
	made := make(chan error, 1)
	go func() {
		_, err := n.Create(t.Context(), network.Request{AllocID: "web", Network: "cni/says"})
		made <- err
	}()
	for !strings.Contains(b.said(), "ADD") && len(made) == 0 {
		<-time.After(time.Millisecond)
	}
	if f := b.fingerprint(n); !slices.Equal(f.Networks, []string{"cni/says"}) || strings.Contains(b.said(), "GC") {
		t.Errorf("%+v, and the programs heard:\n%s", f, b.said())
	}
	b.write(filepath.Join(b.dir, "go"), "", 0o600)
	if err := <-made; err != nil {
		t.Fatal(err)
	}
	if b.fingerprint(n); !strings.Contains(b.said(), "GC") {
		t.Errorf("afterwards nothing is collected:\n%s", b.said())
	}
	if err := n.Destroy(t.Context(), "web"); err != nil {
		t.Error(err)
	}
}

// Each program fails in its own way. Nothing may be left of the network afterwards.
func TestProgramsThatHangOrPrintGarbageOrLeaveHalfANetwork(t *testing.T) {
	for name, c := range map[string]struct{ add, want string }{
		"hangs, with a child":      {"sleep 1000 & sleep 1000", "signal: killed"},
		"prints garbage":           {"echo '<html>'", "invalid character"},
		"prints nothing":           {"true", "unexpected end"},
		"prints without an end":    {"yes", "printed more than"},
		"fails with a message":     {`echo '{"cniVersion": "1.0.0", "code": 999, "msg": "the pool is empty"}'; exit 1`, "the pool is empty"},
		"fails without a message":  {"echo why >&2; exit 3", "why"},
		"answers for another form": {`echo '{"cniVersion": "9.0.0"}'`, "9.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.program("bad", `case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) touch `+b.dir+`/half; `+c.add+` ;;
DEL) rm -f `+b.dir+`/half ;;
esac`)
			b.config("a.conf", `{"cniVersion": "1.0.0", "name": "bad", "type": "bad"}`)
			n := b.fresh()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if strings.HasPrefix(name, "hangs") {
				go func() { // as soon as the program has begun
					for ; ctx.Err() == nil; <-time.After(time.Millisecond) {
						if _, err := os.Stat(filepath.Join(b.dir, "half")); err == nil {
							cancel()
						}
					}
				}()
			}
			_, err := n.Create(ctx, network.Request{AllocID: "web", Network: "cni/bad"})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 4000 {
				t.Fatalf("create: %v", err)
			}
			if left, err := n.List(t.Context()); err != nil || !slices.Equal(left, []string{"web"}) {
				t.Errorf("what is half made is not listed: %q, %v", left, err)
			}
			if err := b.fresh().Destroy(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(b.dir, "half")); err == nil {
				t.Error("half a network is left")
			}
			if entries, _ := os.ReadDir(filepath.Join(b.dir, "netns")); len(entries) != 0 {
				t.Errorf("namespaces are left: %v", entries)
			}
		})
	}
}

// The program is like bridge 1.1: it cannot remove what it has half made.
func TestWhatAProgramCannotRemoveHalfMadeIsCompletedAndRemoved(t *testing.T) {
	b := newBed(t)
	b.program("half", `case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) touch `+b.dir+`/link; if [ -e `+b.dir+`/fails ]; then rm `+b.dir+`/fails; exit 1; fi; touch `+b.dir+`/rule; echo '{"cniVersion": "1.0.0"}' ;;
DEL) rm `+b.dir+`/rule && rm `+b.dir+`/link ;;
esac`)
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "half", "type": "half"}`)
	b.write(filepath.Join(b.dir, "fails"), "", 0o600)
	n := b.fresh()
	if _, err := n.Create(t.Context(), network.Request{AllocID: "web", Network: "cni/half"}); err == nil {
		t.Fatal("the network was made")
	}
	if err := n.Destroy(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"link", "rule", "netns/web"} {
		if _, err := os.Stat(filepath.Join(b.dir, left)); err == nil {
			t.Errorf("%s is left", left)
		}
	}
}

func TestNetworksThatGiveOutTheSameAddressesAreTold(t *testing.T) {
	b := standard(t)
	b.config("10-net.conflist", lan("net", "", `"ranges": [[{"subnet": "10.214.0.0/16"}]]`))
	b.config("20-same.conflist", lan("same", "", `"subnet": "10.214.7.0/24"`))
	b.config("30-apart.conflist", lan("apart", "", `"ranges": [[{"subnet": "10.215.0.0/24", "rangeStart": "10.215.0.10", "rangeEnd": "10.215.0.19"}]]`))
	b.config("40-after.conflist", lan("after", "", `"subnet": "10.215.0.0/24", "rangeStart": "10.215.0.20"`))
	b.config("50-other.conflist", lan("other", "eth9", `"subnet": "10.214.0.0/16"`))
	f := b.fingerprint(b.fresh())
	if want := []string{"cni/after", "cni/apart", "cni/net", "cni/other", "cni/same"}; !slices.Equal(f.Networks, want) {
		t.Errorf("networks: %q, want %q", f.Networks, want)
	}
	if want := "networks cni/net and cni/same both give out addresses of 10.214.0.0/16 and 10.214.7.0/24"; !strings.HasPrefix(f.Problem, want) || strings.Count(f.Problem, "both give out") != 1 {
		t.Errorf("%q, want only %q", f.Problem, want)
	}
}

// lan is the configuration of a network whose addresses host-local gives out.
func lan(name, master, ipam string) string {
	kind := `"type": "bridge"`
	if master != "" {
		kind = fmt.Sprintf(`"type": "macvlan", "master": %q`, master)
	}
	return fmt.Sprintf(`{"cniVersion": "1.0.0", "name": %q, "plugins": [{%s, "ipam": {"type": "host-local", %s}}]}`, name, kind, ipam)
}

func TestASubnetOfCNIThatIsFullIsSaid(t *testing.T) {
	b := standard(t)
	b.config("20-small.conflist", fmt.Sprintf(`{"cniVersion": "1.0.0", "name": "small", "plugins": [{"type": "bridge", "bridge": "drs%d", "isGateway": true,
		"ipam": {"type": "host-local", "subnet": "10.216.%d.0/30", "dataDir": %q}}]}`, os.Getpid(), os.Getpid()%200, t.TempDir()))
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", fmt.Sprintf("drs%d", os.Getpid())).Run() })
	n := b.fresh()
	b.create(n, network.Request{AllocID: "one", Network: "cni/small"})
	_, err := n.Create(t.Context(), network.Request{AllocID: "two", Network: "cni/small"})
	if !errdefs.IsResourceExhausted(err) || !strings.Contains(err.Error(), "no IP addresses available") || !strings.Contains(err.Error(), "a larger subnet") {
		t.Errorf("a network of a /30 has no second address: %v", err)
	}
	if err := n.Destroy(t.Context(), "two"); err != nil {
		t.Fatal(err)
	}
	if ids, err := n.List(t.Context()); err != nil || !slices.Equal(ids, []string{"one"}) {
		t.Errorf("left: %q, %v", ids, err)
	}
}

func TestAProgramThatHangsIsNamedBeforeTheCallerGivesUp(t *testing.T) {
	b := newBed(t)
	b.program("hang", `case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) exec sleep 1000 ;;
esac`)
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "hang", "type": "hang"}`)
	n := b.fresh()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
	defer cancel()
	_, err := n.Create(ctx, network.Request{AllocID: "web", Network: "cni/hang"})
	if ctx.Err() != nil {
		t.Error("the answer comes too late")
	}
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), filepath.Join(b.programs, "hang")) || !strings.Contains(err.Error(), "did not end in time") {
		t.Errorf("%v", err)
	}
	if err := n.Destroy(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
}

func TestAnInterfaceThatAProgramClaimsMustBeThere(t *testing.T) {
	b := newBed(t)
	b.program("lies", `case "$CNI_COMMAND" in
VERSION) echo '{"cniVersion": "1.0.0", "supportedVersions": ["1.0.0"]}' ;;
ADD) printf '{"cniVersion": "1.0.0", "interfaces": [{"name": "eth0", "sandbox": "%s"}]}' "$CNI_NETNS" ;;
esac`)
	b.config("a.conf", `{"cniVersion": "1.0.0", "name": "lies", "type": "lies"}`)
	n := b.fresh()
	_, err := n.Create(t.Context(), network.Request{AllocID: "web", Network: "cni/lies"})
	if !errdefs.IsFailedPrecondition(err) || !strings.Contains(err.Error(), `report success, but the namespace`) || !strings.Contains(err.Error(), `has no interface "eth0"`) {
		t.Errorf("%v", err)
	}
	if err := n.Destroy(t.Context(), "web"); err != nil {
		t.Fatal(err)
	}
}
