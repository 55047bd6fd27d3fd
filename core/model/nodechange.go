// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"reflect"
	"slices"

	"github.com/drover-project/drover/sdk/errdefs"
)

// NodeChange is the difference between a node's registration and an earlier one. Base is
// the version of the earlier one (see rpc.Lease), by which the two sides know that they
// mean the same.
type NodeChange struct {
	Base uint64
	// Node has the changed values and the fields that every registration has: the node's
	// identity, process, cluster, token and new events.
	Node *Node
	// Fields are the fields of Node whose new values replace the registered ones.
	Fields []string
	// Resources are the fields of Node.NodeResources whose new values replace the
	// registered ones.
	Resources []string
	// Gone are the keys that are removed, by the name of the map. All entries of maps in
	// Node are added, or replace entries.
	Gone map[string][]string
}

// ofServers are the fields of Node that servers set: a registration has none of them.
var ofServers = []string{
	"Status", "StatusUpdatedAt", "SchedulingEligibility", "Drain", "DrainStrategy", "LastDrain", "ComputedClass",
	"LastMissedHeartbeatIndex", "LastAllocUpdateIndex", "CreateIndex", "ModifyIndex",
}

// ofEach are the fields that every registration has, including one with changes only.
var ofEach = []string{"ID", "SecretID", "Events", "Region", "Instance", "ClusterID", "Session", "Number", "Token"}

// Registration returns the part of a node's registration that both sides keep to compare
// the next one with: the node without the fields that servers set and without those of one
// registration only.
func (n *Node) Registration() *Node {
	c := n.Copy()
	v := reflect.ValueOf(c).Elem()
	for _, name := range slices.Concat(ofServers, ofEach) {
		v.FieldByName(name).SetZero()
	}
	c.ID, c.SecretID = n.ID, n.SecretID
	if c.NodePool == "" {
		c.NodePool = NodePoolDefault
	}
	return c
}

// ChangeOf returns how a registration differs from the one before. Base is left to the
// caller.
func ChangeOf(before, now *Node) *NodeChange {
	c := &NodeChange{Node: &Node{}, Gone: map[string][]string{}}
	was, is, out := reflect.ValueOf(before).Elem(), reflect.ValueOf(now).Elem(), reflect.ValueOf(c.Node).Elem()
	for i := range is.NumField() {
		name := is.Type().Field(i).Name
		switch {
		case slices.Contains(ofServers, name):
		case slices.Contains(ofEach, name):
			out.Field(i).Set(is.Field(i))
		case is.Field(i).Kind() == reflect.Map:
			c.entries(name, was.Field(i), is.Field(i), out.Field(i))
		case name == "NodeResources" && before.NodeResources != nil && now.NodeResources != nil:
			r := &NodeResources{}
			if c.Resources = differing(was.Field(i).Elem(), is.Field(i).Elem(), reflect.ValueOf(r).Elem()); len(c.Resources) > 0 {
				c.Node.NodeResources = r
			}
		case !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()):
			c.Fields = append(c.Fields, name)
			out.Field(i).Set(is.Field(i))
		}
	}
	return c
}

// entries notes how a map differs.
func (c *NodeChange) entries(name string, was, is, out reflect.Value) {
	for _, key := range was.MapKeys() {
		if !is.MapIndex(key).IsValid() {
			c.Gone[name] = append(c.Gone[name], key.String())
		}
	}
	slices.Sort(c.Gone[name])
	for _, key := range is.MapKeys() {
		old, now := was.MapIndex(key), is.MapIndex(key)
		if old.IsValid() && reflect.DeepEqual(old.Interface(), now.Interface()) {
			continue
		}
		if out.IsNil() {
			out.Set(reflect.MakeMap(out.Type()))
		}
		out.SetMapIndex(key, now)
	}
}

// differing sets the fields of out in which is differs from was, and returns their names.
func differing(was, is, out reflect.Value) (names []string) {
	for i := range is.NumField() {
		if !reflect.DeepEqual(was.Field(i).Interface(), is.Field(i).Interface()) {
			names = append(names, is.Type().Field(i).Name)
			out.Field(i).Set(is.Field(i))
		}
	}
	return names
}

// Validate returns an error of class InvalidArgument if a change has no node, or names more
// than a registration within NodeBounds can have. Each name is looked up, so more names
// would only cost time.
func (c *NodeChange) Validate() error {
	if c == nil || c.Node == nil {
		return errdefs.InvalidArgumentf("the change of the registration is empty; send the differences")
	}
	if err := ValidateNodeID(c.Node.ID); err != nil {
		return err
	}
	names := struct {
		Fields, Resources []string
		Gone              map[string][]string
	}{c.Fields, c.Resources, c.Gone}
	return NodeBounds.Check("node "+c.Node.ID+": the change of the registration: ", names)
}

// Apply returns the registration that differs from before as c says. It shares values with
// both. Names of fields that Node does not have are of a newer node, and are left out as
// they are in a whole registration.
func (c *NodeChange) Apply(before *Node) *Node {
	out := before.Registration()
	is, from := reflect.ValueOf(out).Elem(), reflect.ValueOf(c.Node).Elem()
	for i := range is.NumField() {
		name := is.Type().Field(i).Name
		switch {
		case slices.Contains(ofServers, name):
		case slices.Contains(ofEach, name) || slices.Contains(c.Fields, name):
			is.Field(i).Set(from.Field(i))
		case is.Field(i).Kind() == reflect.Map && (len(c.Gone[name]) > 0 || from.Field(i).Len() > 0):
			is.Field(i).Set(merged(is.Field(i), from.Field(i), c.Gone[name]))
		}
	}
	if len(c.Resources) > 0 && c.Node.NodeResources != nil && out.NodeResources != nil {
		r := *out.NodeResources
		to, from := reflect.ValueOf(&r).Elem(), reflect.ValueOf(c.Node.NodeResources).Elem()
		for _, name := range c.Resources {
			if f := to.FieldByName(name); f.IsValid() {
				f.Set(from.FieldByName(name))
			}
		}
		out.NodeResources = &r
	}
	return out
}

// merged returns a new map: the entries of was without the names in gone, plus the entries
// of more.
func merged(was, more reflect.Value, gone []string) reflect.Value {
	out := reflect.MakeMapWithSize(was.Type(), was.Len()+more.Len())
	for _, key := range was.MapKeys() {
		out.SetMapIndex(key, was.MapIndex(key))
	}
	for _, key := range gone {
		out.SetMapIndex(reflect.ValueOf(key).Convert(was.Type().Key()), reflect.Value{})
	}
	for _, key := range more.MapKeys() {
		out.SetMapIndex(key, more.MapIndex(key))
	}
	return out
}
