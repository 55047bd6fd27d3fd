// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"bytes"
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // a checksum that templates ask for by name
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/BurntSushi/toml"
	"go.yaml.in/yaml/v3"

	"github.com/drover-project/drover/sdk/errdefs"
)

func encodingFunctions() map[string]function {
	return map[string]function{
		"base64Decode":          {fn: decoder(base64.StdEncoding)},
		"base64Encode":          {fn: func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }},
		"base64URLDecode":       {fn: decoder(base64.URLEncoding)},
		"base64URLEncode":       {fn: func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }},
		"toJSON":                {fn: func(v any) (string, error) { return toJSON(v, "", true) }},
		"toJSONPretty":          {fn: func(v any) (string, error) { return toJSON(v, "  ", true) }, before: prettyFits},
		"toUnescapedJSON":       {fn: func(v any) (string, error) { return toJSON(v, "", false) }},
		"toUnescapedJSONPretty": {fn: func(v any) (string, error) { return toJSON(v, "  ", false) }, before: prettyFits},
		"toYAML":                {fn: toYAML, before: prettyFits},
		"toTOML":                {fn: toTOML, before: prettyFits},
		"parseJSON":             {fn: parseJSON, before: parseFits(4)},
		"parseYAML":             {fn: parseYAML, before: parseFits(10)},
		"md5sum":                {fn: func(s string) string { sum := md5.Sum([]byte(s)); return hex.EncodeToString(sum[:]) }}, //nolint:gosec // as above
		"sha256Hex":             {fn: func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) }},
		"hmacSHA256Hex":         {fn: hmacSHA256Hex},
	}
}

func decoder(e *base64.Encoding) any {
	return func(s string) (string, error) {
		raw, err := e.DecodeString(s)
		if err != nil {
			return "", errdefs.New(errdefs.InvalidArgument, fmt.Errorf("decode base64: %w", err))
		}
		return string(raw), nil
	}
}

func hmacSHA256Hex(message, key string) string {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(message))
	return hex.EncodeToString(mac.Sum(nil))
}

// prettyFits bounds the indentation, which grows with the depth of each element.
func prettyFits(b *bound) error {
	left := b.run.maxBytes * sizeFactor
	return b.run.indented(b.args[0], &left, 0)
}

func (e *execution) indented(v reflect.Value, left *int64, depth int64) error {
	for v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if *left -= 2 * depth; *left < 0 {
		return e.room(e.maxBytes + 1)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil
		}
		for i := range v.Len() {
			if err := e.indented(v.Index(i), left, depth+1); err != nil {
				return err
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if err := e.indented(it.Value(), left, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// parseFits bounds texts that are parsed to a fraction of what a value may have,
// since parsed data takes more memory than its text.
func parseFits(fraction int64) func(*bound) error {
	return func(b *bound) error {
		if n := int64(b.args[0].Len()); n > b.run.maxBytes/fraction {
			return errdefs.ResourceExhaustedf("a text of %d bytes is too long to be parsed; at most %d are", n, b.run.maxBytes/fraction)
		}
		return nil
	}
}

func toJSON(v any, indent string, escape bool) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(escape)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return "", errdefs.New(errdefs.InvalidArgument, fmt.Errorf("make JSON: %w", err))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

func toYAML(v any) (string, error) {
	raw, err := yaml.Marshal(v)
	if err != nil {
		return "", errdefs.New(errdefs.InvalidArgument, fmt.Errorf("make YAML: %w", err))
	}
	return string(bytes.TrimSpace(raw)), nil
}

func toTOML(v any) (string, error) {
	var b bytes.Buffer
	if err := toml.NewEncoder(&b).Encode(v); err != nil {
		return "", errdefs.New(errdefs.InvalidArgument, fmt.Errorf("make TOML: %w", err))
	}
	return strings.TrimSpace(b.String()), nil
}

func parseJSON(s string) (any, error) {
	if s == "" {
		return map[string]any{}, nil
	}
	var v any
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, fmt.Errorf("parseJSON: %w", err))
	}
	return v, nil
}

func parseYAML(s string) (any, error) {
	if s == "" {
		return map[string]any{}, nil
	}
	var v any
	if err := yaml.Unmarshal([]byte(s), &v); err != nil {
		return nil, errdefs.New(errdefs.InvalidArgument, fmt.Errorf("parseYAML: %w", err))
	}
	return v, nil
}
