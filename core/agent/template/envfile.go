// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package template

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.\-]*$`)

// parseEnv parses the output of a template with env = true: a NAME=VALUE a line, with
// comments, an optional "export", and values bare, in single quotes (as they are) or in
// double quotes (with \n and the like).
func parseEnv(text string) (map[string]string, error) {
	out := map[string]string{}
	n := 0
	for line := range strings.SplitSeq(text, "\n") {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if !ok || !envName.MatchString(name) {
			return nil, errdefs.InvalidArgumentf("line %d of the environment is not NAME=VALUE", n) // not its text: it may be a secret
		}
		value, err := envValue(strings.TrimSpace(value))
		if err != nil {
			return nil, errdefs.InvalidArgumentf("line %d of the environment: the value of %s %w", n, name, err)
		}
		out[name] = value
	}
	return out, nil
}

// envValue joins the parts of a value: bare ones and quoted ones may follow each other.
func envValue(s string) (string, error) {
	var out strings.Builder
	for s != "" {
		switch s[0] {
		case '\'':
			part, rest, ok := strings.Cut(s[1:], "'")
			if !ok {
				return "", errdefs.InvalidArgumentf("has a single quote that does not end")
			}
			out.WriteString(part)
			s = rest
		case '"':
			quoted, err := strconv.QuotedPrefix(s)
			if err != nil {
				return "", errdefs.InvalidArgumentf("has a double quote that does not end, or an unknown escape")
			}
			part, err := strconv.Unquote(quoted)
			if err != nil {
				return "", errdefs.InvalidArgumentf("has an unknown escape")
			}
			out.WriteString(part)
			s = s[len(quoted):]
		default:
			end := strings.IndexAny(s, "'\"#")
			if end < 0 {
				return out.String() + s, nil
			}
			if s[end] == '#' {
				if end == 0 || s[end-1] == ' ' || s[end-1] == '\t' {
					out.WriteString(strings.TrimRight(s[:end], " \t"))
					return out.String(), nil
				}
				end++ // part of the value
			}
			out.WriteString(s[:end])
			s = s[end:]
		}
	}
	return out.String(), nil
}
