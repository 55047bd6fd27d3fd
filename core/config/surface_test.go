// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/config"
)

var keyLine = regexp.MustCompile(`^( *)(\S+)  (\S+)  \((.*?)\)`)

// key is a line of compat/surface/agent-config.txt.
type key struct {
	name, typ string
	label     bool // its block is given as BLOCK "name" { }
	parent    *key
	leaf      bool
}

// surfaceKeys reads what a configuration of the reference may hold; it skips
// where the records are absent.
func surfaceKeys(t *testing.T) []*key {
	dir := os.Getenv("DROVER_COMPAT")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "compat")
	}
	text, err := os.ReadFile(filepath.Join(dir, "surface", "agent-config.txt"))
	if err != nil {
		t.Skip("no list of configuration keys: ", err)
	}
	var all []*key
	path := []*key{nil}
	for _, line := range strings.Split(string(text), "\n") {
		if strings.HasSuffix(line, " key") { // the label of the block above
			depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
			if depth-1 < len(path) && path[depth-1] != nil {
				path[depth-1].label = true
			}
			continue
		}
		m := keyLine.FindStringSubmatch(line)
		if m == nil || strings.HasPrefix(m[2], "ExtraKeysHCL") {
			continue
		}
		depth := len(m[1]) / 2
		k := &key{name: m[2], typ: m[4], parent: path[depth], leaf: true}
		if k.parent != nil {
			k.parent.leaf = false
		}
		path = append(path[:depth+1], k)
		all = append(all, k)
	}
	return all
}

func (k *key) String() string {
	if k.parent == nil {
		return k.name
	}
	return k.parent.String() + "." + k.name
}

// source is the smallest configuration that sets the key.
func (k *key) source() string {
	var inner string
	switch typ := strings.TrimPrefix(k.typ, "*"); {
	case strings.HasPrefix(typ, "map["):
		inner = fmt.Sprintf("%s {\n  k = \"v\"\n}", k.name)
	case typ == "bool":
		inner = k.name + " = true"
	case typ == "int" || typ == "uint" || typ == "float64":
		inner = k.name + " = 7"
	case typ == "[]string":
		inner = k.name + ` = ["x"]`
	default:
		inner = k.name + " = " + fmt.Sprintf("%q", text(k))
	}
	for p := k.parent; p != nil; p = p.parent {
		label := ""
		if p.label {
			label = ` "x"`
		}
		inner = fmt.Sprintf("%s%s {\n%s\n}", p.name, label, inner)
	}
	return inner + "\n"
}

// text is a value that a key of type string accepts.
func text(k *key) string {
	for part, value := range map[string]string{
		"interval": "7s", "timeout": "7s", "threshold": "7m", "ttl": "7s", "wait": "7s", "backoff": "7s", "duration": "7s", "min": "7s", "max": "7s",
		"grace": "7s", "stale": "7s", "delay": "7s", "size": "1GB", "level": "INFO", "reserved_ports": "22,80-90", "cores": "1-2", "path": "/x", "dir": "/x",
	} {
		if strings.Contains(k.name, part) {
			return value
		}
	}
	return "x"
}

func TestEveryKeyOfAConfigurationIsReadRefusedOrNamedAsUnused(t *testing.T) {
	keys := surfaceKeys(t)
	if len(keys) < 250 {
		t.Fatalf("the list has %d keys only", len(keys))
	}
	for _, k := range keys {
		if !k.leaf {
			continue
		}
		c := config.Defaults()
		if err := c.Merge("a.hcl", []byte(k.source())); err != nil && !strings.Contains(err.Error(), "cannot be kept") {
			t.Errorf("%s: %v\n%s", k, err, k.source())
		}
	}
}
