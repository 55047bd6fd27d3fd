// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
)

// Captures are sent to other people, so secrets are removed from them: the values of
// environment variables, of artifacts' headers and options, of templates and
// payloads; values whose name looks like the name of a secret; and credentials in
// URLs.

const redacted = "<redacted>"

// hidden lists, in lower case, the fields whose values are removed. The names in
// them are kept.
var hidden = map[string]bool{
	"env": true, "environment": true, "header": true, "headers": true, "getteroptions": true, "getterheaders": true,
	"embeddedtmpl": true, "items": true, "auth": true, "otlpheaders": true, "otlp_headers": true,
}

var (
	secretName  = regexp.MustCompile(`(?i)passw|secret|token|credential|authorization|api_?key|access_?key|private_?key|sshkey`)
	urlUser     = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s"'\\]*@`)
	urlQuery    = regexp.MustCompile(`([?&][^=&\s"'\\]+=)[^&\s"'\\#]+`)
	bearer      = regexp.MustCompile(`(?i)\b(bearer|basic) +[a-z0-9+/._~=-]{8,}`)
	secretValue = regexp.MustCompile(`(?i)([a-z0-9_-]*(?:passw|secret|token|credential|api_?key|access_?key|private_?key)[a-z0-9_-]*=)[^\s"'\\&,;]+`)
)

// redactText removes credentials from a text, such as a log or a value.
func redactText(s string) string {
	if strings.Contains(s, "://") {
		s = urlUser.ReplaceAllString(s, "${1}"+redacted+"@")
		s = urlQuery.ReplaceAllString(s, "${1}"+redacted)
	}
	s = secretValue.ReplaceAllString(s, "${1}"+redacted)
	return bearer.ReplaceAllString(s, "${1} "+redacted)
}

// redactJSON removes secrets from a sequence of JSON values. Invalid or truncated
// JSON is dropped, because secrets in it cannot be found.
func redactJSON(data []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber() // preserves all digits of a number
	var out bytes.Buffer
	write := json.NewEncoder(&out)
	write.SetEscapeHTML(false)
	for {
		var v any
		err := in.Decode(&v)
		if err == nil {
			err = write.Encode(redactValue(v))
		}
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		if err != nil {
			out.WriteString(`"the rest was not valid JSON and is left out"` + "\n")
			return out.Bytes()
		}
	}
}

func redactValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, each := range v {
			switch {
			case hidden[strings.ToLower(name)] || name == "Payload" && isText(each): // the payload of a job is a text, the payload of an event an object
				v[name] = hideValue(each)
			case secretName.MatchString(name):
				v[name] = hideText(each)
			default:
				v[name] = redactValue(each)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = redactValue(v[i])
		}
		return v
	case string:
		return redactText(v)
	}
	return v
}

func isText(v any) bool {
	_, ok := v.(string)
	return ok
}

// hideValue replaces all values. The keys of maps stay, and so do the names of
// "NAME=VALUE" texts.
func hideValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, each := range v {
			v[name] = hideValue(each)
		}
		return v
	case []any:
		for i := range v {
			v[i] = hideValue(v[i])
		}
		return v
	case string:
		if name, _, ok := strings.Cut(v, "="); ok && name != "" && !strings.ContainsAny(name, " \n{") {
			return name + "=" + redacted
		}
		return redacted
	case nil:
		return nil
	}
	return redacted
}

// hideText replaces a text. Numbers and booleans with the name of a secret, such as
// a TTL or a count, are kept.
func hideText(v any) any {
	switch v := v.(type) {
	case string:
		if v == "" {
			return v
		}
		return redacted
	case map[string]any, []any:
		return hideValue(v)
	}
	return v
}

// redactFile returns the part of a file that a capture may contain. Profiles are
// unchanged: they contain only function names.
func redactFile(name string, data []byte) []byte {
	switch {
	case strings.HasSuffix(name, ".json"):
		return redactJSON(data)
	case strings.HasSuffix(name, ".prof"):
		return data
	}
	return []byte(redactText(string(data)))
}
