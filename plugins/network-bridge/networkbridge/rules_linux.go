// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkbridge

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	mdnetlink "github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plugins/internal/netspace"
	"github.com/drover-project/drover/sdk/errdefs"
	network "github.com/drover-project/drover/sdk/network/v1"
)

// family is what differs between the rules of IPv4 and IPv6.
type family struct {
	table        nftables.TableFamily
	proto        uint32
	size         uint32 // of an address
	source, dest uint32 // where addresses are in a header
	loopback     netip.Prefix
	address      nftables.SetDatatype
	subnet       netip.Prefix // of the bridge
}

var (
	four = family{nftables.TableFamilyIPv4, unix.NFPROTO_IPV4, 4, 12, 16, netip.MustParsePrefix("127.0.0.0/8"), nftables.TypeIPAddr, netip.Prefix{}}
	six  = family{nftables.TableFamilyIPv6, unix.NFPROTO_IPV6, 16, 8, 24, netip.MustParsePrefix("::1/128"), nftables.TypeIP6Addr, netip.Prefix{}}
)

func (s settings) tableName() string { return "drover-" + s.name }

// probe says why this machine cannot have networks; nil if it can.
func probe() error {
	if err := netspace.Probe(); err != nil {
		return err
	}
	c, err := openRules()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	if _, err = c.ListTablesOfFamily(nftables.TableFamilyIPv4); err != nil {
		return noRules(err)
	}
	return nil
}

// transaction is how many bytes the kernel may have of a transaction, and of its answers. It
// answers each rule, and takes no memory for what is not used. The default of 200 KB is
// enough for 100 ports.
const transaction = 64 << 20

// openRules opens nftables. Changes are made at its Flush, as one transaction. Its caller
// calls CloseLasting.
func openRules() (*nftables.Conn, error) {
	c, err := nftables.New(nftables.AsLasting(), nftables.WithSockOptions(func(c *mdnetlink.Conn) error {
		return errors.Join(c.SetReadBuffer(transaction), c.SetWriteBuffer(transaction))
	}))
	if err != nil {
		return nil, noRules(err)
	}
	return c, nil
}

func noRules(err error) error {
	return errdefs.FailedPreconditionf("the kernel's nftables cannot be used; load the module nf_tables: %w", err)
}

// The ports of the machine that lead to allocs are elements of two maps: of those on one
// address of the machine, and of those on all. So an alloc costs its own elements, however
// many others have ports.
const (
	portsAt  = "ports-at"  // address . protocol . port -> address . port
	portsAny = "ports-any" // protocol . port -> address . port
)

// layout marks rules. A table without them was damaged, or written by an earlier version,
// and is written anew.
const layout = "drover-2"

// families returns the address families of the subnets.
func (s settings) families() (out []family) {
	for _, subnet := range s.subnets {
		f := four
		if subnet.Addr().Is6() {
			f = six
		}
		f.subnet = subnet
		out = append(out, f)
	}
	return out
}

// openPorts makes the ports of a record lead to it. all are the records of all allocs, with
// this one.
func (s settings) openPorts(rec *record, all map[string]*record) error {
	if rec.Changed || !s.intact() || s.change(rec, (*nftables.Conn).SetAddElements) != nil {
		return s.writeRules(all) // whatever it was
	}
	return s.pass(true)
}

// closePorts makes the ports of a record that has ended lead nowhere.
func (s settings) closePorts(rec *record, all map[string]*record) error {
	alone, shares := true, false
	for id, r := range all {
		if id != rec.AllocID && r.reachable() {
			alone = false
			shares = shares || sharePort(rec, r)
		}
	}
	if alone || shares || rec.Changed || s.change(rec, (*nftables.Conn).SetDeleteElements) != nil {
		return s.writeRules(all)
	}
	return nil
}

// sharePort reports whether two records have a port of the machine, as while an alloc is
// destroyed whose port was given away again.
func sharePort(a, b *record) bool {
	return slices.ContainsFunc(a.Ports, func(p network.Port) bool {
		return slices.ContainsFunc(b.Ports, func(o network.Port) bool { return o.HostPort == p.HostPort })
	})
}

// chunk is how many elements are in a message, whose length has 16 bits.
const chunk = 200

// change adds or deletes the elements of a record, all or none. It fails if they are not
// as the record says.
func (s settings) change(rec *record, do func(*nftables.Conn, *nftables.Set, []nftables.SetElement) error) error {
	if len(rec.Ports) == 0 {
		return nil
	}
	c, err := openRules()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	for _, f := range s.families() {
		for set, elements := range f.elements(s, []*record{rec}) {
			for part := range slices.Chunk(elements, chunk) {
				if err := do(c, set, part); err != nil {
					return fmt.Errorf("change the ports of alloc %s: %w", rec.AllocID, err)
				}
			}
		}
	}
	if err := c.Flush(); err != nil {
		return errdefs.FailedPreconditionf("change the ports of alloc %s: %w", rec.AllocID, err)
	}
	return nil
}

// sets returns the two maps of a table.
func (f family) sets(t *nftables.Table) (at, any *nftables.Set) {
	to := nftables.MustConcatSetType(f.address, nftables.TypeInetService)
	at = &nftables.Set{Table: t, Name: portsAt, IsMap: true, KeyType: nftables.MustConcatSetType(f.address, nftables.TypeInetProto, nftables.TypeInetService), DataType: to}
	any = &nftables.Set{Table: t, Name: portsAny, IsMap: true, KeyType: nftables.MustConcatSetType(nftables.TypeInetProto, nftables.TypeInetService), DataType: to}
	return at, any
}

func (f family) tableOf(s settings) *nftables.Table {
	return &nftables.Table{Name: s.tableName(), Family: f.table}
}

// elements returns the elements of records, by their map. The first record that has a port
// of the machine gets it. The comment of an element is its alloc.
func (f family) elements(s settings, list []*record) map[*nftables.Set][]nftables.SetElement {
	at, any := f.sets(f.tableOf(s))
	out := map[*nftables.Set][]nftables.SetElement{}
	taken := map[string]bool{}
	for _, r := range list {
		for _, addr := range r.Addresses {
			if addr.Addr().Is4() != f.subnet.Addr().Is4() {
				continue
			}
			for _, p := range r.Ports {
				set, host := any, []byte(nil)
				if ip, err := netip.ParseAddr(p.HostIP); err == nil && !ip.IsUnspecified() {
					if ip.Unmap().Is4() != addr.Addr().Is4() {
						continue
					}
					set, host = at, ip.Unmap().AsSlice()
				}
				to := slices.Concat(addr.Addr().AsSlice(), service(p.Port))
				for _, proto := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
					key := slices.Concat(host, []byte{proto, 0, 0, 0}, service(p.HostPort))
					if !taken[string(key)] {
						taken[string(key)] = true
						out[set] = append(out[set], nftables.SetElement{Key: key, Val: to, Comment: r.AllocID})
					}
				}
			}
		}
	}
	return out
}

// service is a port as a part of a key, which has four bytes.
func service(port int) []byte { return append(binaryutil.BigEndian.PutUint16(uint16(port)), 0, 0) }

// newestFirst returns the records of allocs that can be reached.
func newestFirst(all map[string]*record) (out []*record) {
	for _, r := range all {
		if r.reachable() {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *record) int {
		return cmp.Or(cmp.Compare(b.Since, a.Since), cmp.Compare(a.AllocID, b.AllocID))
	})
	return out
}

// writeRules replaces the tables of this bridge by what the records need, in one
// transaction: packets meet either the old rules or the new ones. Without records it
// leaves none.
func (s settings) writeRules(all map[string]*record) error {
	c, err := openRules()
	if err != nil {
		return err
	}
	defer c.CloseLasting()
	list := newestFirst(all)
	for _, f := range s.families() {
		t := f.tableOf(s)
		c.AddTable(t) // so that there is something to delete
		c.DelTable(t)
		if len(list) > 0 {
			w := &writer{c: c, f: f, s: s, t: c.AddTable(t)}
			if err := w.write(list); err != nil {
				return err
			}
		}
	}
	if err := c.Flush(); err != nil {
		return errdefs.FailedPreconditionf("write the rules of nftables: %w", err)
	}
	return s.pass(len(list) > 0)
}

// writer writes the table of one family.
type writer struct {
	c *nftables.Conn
	f family
	s settings
	t *nftables.Table
}

// rulesOf are the numbers of rules in each chain.
var rulesOf = map[string]int{"prerouting": 1, "output": 1, "ports": 2, "guard": 1, "postrouting": 3}

func (w *writer) write(list []*record) error {
	at, any := w.f.sets(w.t)
	for _, set := range []*nftables.Set{at, any} {
		if err := w.c.AddSet(set, nil); err != nil {
			return fmt.Errorf("add a map to nftables: %w", err)
		}
	}
	for set, elements := range w.f.elements(w.s, list) {
		for part := range slices.Chunk(elements, chunk) {
			if err := w.c.SetAddElements(set, part); err != nil {
				return fmt.Errorf("add ports to nftables: %w", err)
			}
		}
	}
	ports := w.c.AddChain(&nftables.Chain{Name: "ports", Table: w.t})
	w.rule(ports, w.lead(at, []expr.Any{&expr.Payload{DestRegister: register(0), Base: expr.PayloadBaseNetworkHeader, Offset: w.f.dest, Len: w.f.size}}, w.f.size/4))
	w.rule(ports, w.lead(any, nil, 0))

	chain := func(name string, typ nftables.ChainType, hook *nftables.ChainHook, prio *nftables.ChainPriority) *nftables.Chain {
		return w.c.AddChain(&nftables.Chain{Name: name, Table: w.t, Type: typ, Hooknum: hook, Priority: prio})
	}
	jump := &expr.Verdict{Kind: expr.VerdictJump, Chain: ports.Name}
	for name, hook := range map[string]*nftables.ChainHook{"prerouting": nftables.ChainHookPrerouting, "output": nftables.ChainHookOutput} {
		w.rule(chain(name, nftables.ChainTypeNAT, hook, nftables.ChainPriorityNATDest), local(), []expr.Any{jump})
	}
	// route_localnet would let allocs reach what listens on the machine's loopback.
	guard := chain("guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw)
	w.rule(guard, iface(expr.MetaKeyIIFNAME, w.s.name), w.within(w.f.dest, w.f.loopback, true), []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}})

	masquerade := []expr.Any{&expr.Masq{}}
	after := chain("postrouting", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource)
	w.rule(after, w.within(w.f.source, w.f.subnet, true), w.within(w.f.dest, w.f.subnet, false), masquerade)
	// Answers to the machine's loopback and to an alloc behind the same bridge must come
	// back through the machine, which translates them.
	w.rule(after, iface(expr.MetaKeyOIFNAME, w.s.name), w.within(w.f.source, w.f.loopback, true), masquerade)
	w.rule(after, iface(expr.MetaKeyOIFNAME, w.s.name), w.within(w.f.source, w.f.subnet, true), translated(), masquerade)
	return nil
}

// register returns the nth of the registers of four bytes.
func register(n uint32) uint32 { return unix.NFT_REG32_00 + n }

// lead leads packets to where a map says. load loads the first words of the key.
func (w *writer) lead(set *nftables.Set, load []expr.Any, words uint32) []expr.Any {
	return slices.Concat(load, []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: register(words)},
		&expr.Payload{DestRegister: register(words + 1), Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Lookup{SourceRegister: register(0), DestRegister: register(0), IsDestRegSet: true, SetName: set.Name, SetID: set.ID},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: w.f.proto, RegAddrMin: register(0), RegProtoMin: register(w.f.size / 4)},
	})
}

func (w *writer) rule(chain *nftables.Chain, parts ...[]expr.Any) {
	w.c.AddRule(&nftables.Rule{Table: w.t, Chain: chain, Exprs: slices.Concat(parts...), UserData: []byte(layout)})
}

// local matches packets to an address of the machine.
func local() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)},
	}
}

// translated matches packets whose destination was translated.
func translated() []expr.Any {
	const dstNAT = 1 << 5 // IPS_DST_NAT
	return []expr.Any{
		&expr.Ct{Register: 1, Key: expr.CtKeySTATUS},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(dstNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func iface(key expr.MetaKey, name string) []expr.Any {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return []expr.Any{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: padded}}
}

// within matches packets whose address at the offset is in a subnet, or is not.
func (w *writer) within(offset uint32, subnet netip.Prefix, in bool) []expr.Any {
	op := expr.CmpOpEq
	if !in {
		op = expr.CmpOpNeq
	}
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: w.f.size},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: w.f.size, Mask: prefix(subnet).Mask, Xor: make([]byte, w.f.size)},
		&expr.Cmp{Op: op, Register: 1, Data: subnet.Masked().Addr().AsSlice()},
	}
}

// intact reports whether the tables of the bridge have the rules that they should have.
func (s settings) intact() bool {
	c, err := openRules()
	if err != nil {
		return false
	}
	defer c.CloseLasting()
	for _, f := range s.families() {
		t := f.tableOf(s)
		for _, name := range slices.Sorted(maps.Keys(rulesOf)) {
			rules, err := c.GetRules(t, &nftables.Chain{Name: name, Table: t})
			if err != nil || count(rules, layout) != rulesOf[name] || len(rules) != rulesOf[name] {
				return false
			}
		}
	}
	return true
}

// inspectRules says whether the ports of a record lead to it.
func (s settings) inspectRules(rec *record) error {
	if s.intact() {
		gone, err := s.lack([]*record{rec})
		if err != nil || !gone {
			return err
		}
	}
	return errdefs.FailedPreconditionf("the port maps of alloc %s are not in the table %s of nftables any more", rec.AllocID, s.tableName())
}

// lack reports whether one of the ports of records does not lead where it should.
func (s settings) lack(list []*record) (bool, error) {
	c, err := openRules()
	if err != nil {
		return false, err
	}
	defer c.CloseLasting()
	for _, f := range s.families() {
		for set, want := range f.elements(s, list) {
			has, err := c.GetSetElements(set)
			if err != nil {
				return false, errdefs.FailedPreconditionf("read the map %s of nftables: %w", set.Name, err)
			}
			leads := map[string][]byte{}
			for _, e := range has {
				leads[string(e.Key)] = e.Val
			}
			for _, e := range want {
				if !bytes.Equal(leads[string(e.Key)], e.Val) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// restoreRules writes what another program has removed of the rules, and sets what it has set
// otherwise of the bridge and the kernel: one that flushes the rules of the machine and writes
// its own knows nothing of the allocs that run. It reports whether ports led nowhere.
func (s settings) restoreRules(all map[string]*record) (restored bool, err error) {
	list := newestFirst(all)
	if len(list) == 0 {
		return false, nil
	}
	if _, err := s.bridge(); err != nil {
		return false, err
	}
	if s.intact() {
		gone, err := s.lack(list)
		if err == nil && !gone {
			return false, s.pass(true)
		}
	}
	return true, s.writeRules(all)
}
