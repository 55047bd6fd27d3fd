// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/drover-project/drover/core/hcl1"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxFileBytes is the maximum size of a configuration file.
const maxFileBytes = 4 << 20

// Load loads files and directories (their *.hcl and *.json files, by name) into c, in
// order: later values win, maps and blocks are merged, lists are replaced.
func (c *Config) Load(paths ...string) error {
	for _, p := range paths {
		files, err := expand(p)
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := c.loadFile(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// expand returns the configuration files of a path.
func expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	var files []string
	for _, e := range entries {
		name := e.Name()
		ext := filepath.Ext(name)
		if !e.IsDir() && (ext == ".hcl" || ext == ".json") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "#") {
			files = append(files, filepath.Join(path, name))
		}
	}
	sort.Strings(files)
	return files, nil
}

func (c *Config) loadFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if info.Size() > maxFileBytes {
		return errdefs.InvalidArgumentf("%s has %d bytes; a configuration file has at most %d", path, info.Size(), maxFileBytes)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	if err := c.Merge(path, src); err != nil {
		return err
	}
	c.Files = append(c.Files, path)
	return nil
}

// Merge merges the text of one file into c. JSON is recognized by its name or its
// first character.
func (c *Config) Merge(name string, src []byte) error {
	tree, err := parseTree(name, src)
	if err != nil {
		return err
	}
	if err := refuseDangerous(name, tree); err != nil {
		return err
	}
	idle, err := tidySnapshot(name, block(tree, "snapshot"))
	if err != nil {
		return err
	}
	also, err := tidyConsul(name, tree)
	if err != nil {
		return err
	}
	idle = append(idle, also...)
	c.Warnings = append(append(c.Warnings, dropUnused(name, tree)...), idle...)
	unknown := fit(reflect.TypeFor[Config](), tree, "")
	if len(unknown) > 0 {
		slices.Sort(unknown)
		return errdefs.InvalidArgumentf("%s: unknown key %s; see docs/configuration.md for the keys", name, strings.Join(unknown, ", "))
	}
	c.joinNamed(tree)
	text, err := json.Marshal(tree)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(c); err != nil {
		return errdefs.InvalidArgumentf("%s: %s", name, readable(model.WrongType(err, text, c, "")))
	}
	if c.Dev {
		// A development agent is always server and node, because files that are
		// written for other agents often disable one of them.
		c.Client.Enabled, c.Server.Enabled = true, true
	}
	return nil
}

func readable(err error) string {
	text := err.Error()
	if rest, ok := strings.CutPrefix(text, "json: unknown field "); ok {
		return "unknown key " + rest + "; see docs/configuration.md for the keys"
	}
	return text
}

func parseTree(name string, src []byte) (map[string]any, error) {
	if strings.HasSuffix(name, ".json") || bytes.HasPrefix(bytes.TrimSpace(src), []byte("{")) {
		var tree map[string]any
		if err := json.Unmarshal(src, &tree); err != nil {
			return nil, errdefs.InvalidArgumentf("%s is not a JSON object: %v", name, err)
		}
		if key := twice(json.NewDecoder(bytes.NewReader(src))); key != "" {
			return nil, errdefs.InvalidArgumentf("%s: an object has the key %q twice, of which only the last would count; join them", name, key)
		}
		flattenLists(tree, false)
		return tree, nil
	}
	src = allowQuotedKeys(src, name)
	var lines hcl1.Edits
	file, diags := hclsyntax.ParseConfig(src, name, hcl.InitialPos)
	if diags.HasErrors() {
		if lines = breakLines(src, name); len(lines) > 0 {
			file, diags = hclsyntax.ParseConfig(lines.Apply(src), name, hcl.InitialPos)
		}
	}
	var tree map[string]any
	if !diags.HasErrors() {
		tree, diags = bodyTree(file.Body.(*hclsyntax.Body), 0, false)
	}
	if diags.HasErrors() {
		lines.Restore(diags, src)
		return nil, errdefs.New(errdefs.InvalidArgument, diags)
	}
	return tree, nil
}

// twice reads one valid JSON value and returns a key that an object in it has twice; empty if
// there is none.
func twice(dec *json.Decoder) (found string) {
	open, err := dec.Token()
	if delim, nested := open.(json.Delim); err != nil || !nested || delim != '{' && delim != '[' {
		return ""
	}
	seen := map[string]bool{}
	for dec.More() && found == "" {
		if open == json.Delim('{') {
			key, _ := dec.Token()
			name, _ := key.(string)
			if seen[name] {
				return name
			}
			seen[name] = true
		}
		found = twice(dec)
	}
	_, _ = dec.Token() // the closing bracket; the value is valid
	return found
}

// flattenLists converts the lists of objects that JSON may use for blocks, such as
// [{"docker": {...}}, {"exec": {...}}], to one object. Of several in a plugin's config
// (inPlugin) the plugin makes what it likes, and there may be several Consul clusters.
func flattenLists(tree map[string]any, inPlugin bool) {
	for k, v := range tree {
		list, _ := v.([]any)
		if len(list) == 1 || !inPlugin && k != "config" && k != "consul" {
			if joined, ok := joinBlocks(list); ok {
				v, tree[k] = joined, joined
			}
		}
		if obj, ok := v.(map[string]any); ok {
			flattenLists(obj, inPlugin || k == "config")
		}
	}
}

// joinBlocks joins the objects of a list: values of later ones win, and objects in them are
// joined as well. It reports whether the list has objects and nothing else.
func joinBlocks(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, v := range list {
		obj, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		for key, value := range obj {
			before, both := out[key]
			if joined, ok := joinBlocks(append(blocksOf(before), blocksOf(value)...)); both && ok {
				value = joined
			}
			out[key] = value
		}
	}
	return out, len(list) > 0
}

// blocksOf returns the list that stands for a block: the value, if it is one, or the value
// as its only element.
func blocksOf(v any) []any {
	if list, ok := v.([]any); ok {
		return slices.Clone(list)
	}
	return []any{v}
}

// maxDepth limits the nesting of blocks.
const maxDepth = 16

// bodyTree converts a body to generic values: a block is a map under its type and, if
// it has a label, under its label. Several of one type are joined, except in a plugin's
// config (inPlugin), where they become a list: the plugin may take several.
func bodyTree(body *hclsyntax.Body, depth int, inPlugin bool) (map[string]any, hcl.Diagnostics) {
	var diags hcl.Diagnostics
	out := map[string]any{}
	if depth > maxDepth {
		return nil, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Blocks are nested too deeply", Subject: body.SrcRange.Ptr()}}
	}
	for name, attr := range body.Attributes {
		v, d := attr.Expr.Value(nil)
		diags = append(diags, d...)
		if d.HasErrors() {
			continue
		}
		text, err := ctyjson.SimpleJSONValue{Value: v}.MarshalJSON()
		if err != nil || !v.IsWhollyKnown() {
			diags = append(diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Value is not known", Subject: attr.SrcRange.Ptr()})
			continue
		}
		var value any
		if err := json.Unmarshal(text, &value); err == nil {
			out[name] = value
		}
	}
	for _, block := range body.Blocks {
		inner, d := bodyTree(block.Body, depth+1, inPlugin || block.Type == "config")
		diags = append(diags, d...)
		several := inPlugin || depth == 0 && block.Type == "consul"
		if earlier, given := out[block.Type]; given && several && len(block.Labels) == 0 {
			out[block.Type] = append(blocksOf(earlier), inner)
			continue
		}
		at := out
		for _, key := range append([]string{block.Type}, block.Labels...) {
			next, ok := at[key].(map[string]any)
			if !ok {
				next = map[string]any{}
				at[key] = next
			}
			at = next
		}
		for k, v := range inner {
			at[k] = joined(at[k], v)
		}
	}
	return out, diags
}

// joinNamed adds to the blocks of a file that have a name what earlier files say of them,
// because the decoder would replace them.
func (c *Config) joinNamed(tree map[string]any) {
	earlier := c.tree()
	for _, path := range []string{"plugin", "client.host_volume", "client.host_network"} {
		before, now := block(earlier, path), block(tree, path)
		for name, value := range now {
			now[name] = joined(before[name], value)
		}
	}
}

// joined returns a block with the keys of two, of which the later one wins. Values that are
// not both blocks cannot be joined: the later one replaces the earlier one.
func joined(earlier, later any) any {
	before, isBlock := earlier.(map[string]any)
	after, both := later.(map[string]any)
	if !isBlock || !both {
		return later
	}
	out := maps.Clone(before)
	for key, value := range after {
		out[key] = joined(out[key], value)
	}
	return out
}
