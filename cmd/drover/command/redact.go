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

// A capture is sent to others, so what may be secret is taken out of it: the values of
// environments, headers and options of artifacts, templates and payloads, whatever has
// the name of a secret, and what authorizes in a URL.

const redacted = "<redacted>"

// hidden are the fields, in lower case, of which nothing is shown but the names in them.
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

// redactText takes what authorizes out of a text: a log, or a value.
func redactText(s string) string {
	if strings.Contains(s, "://") {
		s = urlUser.ReplaceAllString(s, "${1}"+redacted+"@")
		s = urlQuery.ReplaceAllString(s, "${1}"+redacted)
	}
	s = secretValue.ReplaceAllString(s, "${1}"+redacted)
	return bearer.ReplaceAllString(s, "${1} "+redacted)
}

// redactJSON takes secrets out of JSON values that follow each other. What is no JSON,
// or was cut off, is left out: nobody could say what is secret in it.
func redactJSON(data []byte) []byte {
	in := json.NewDecoder(bytes.NewReader(data))
	in.UseNumber() // a number keeps all its digits
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
			case hidden[strings.ToLower(name)] || name == "Payload" && isText(each): // of a job; of an event it is an object
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

// hideValue hides all values; the names of a map stay, as those of "NAME=VALUE" do.
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

// hideText hides a text with the name of a secret; a number or a flag of such a name
// (a time to live, a count) is none.
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

// redactFile is what a file of a capture may show. Profiles are kept as they are:
// they hold names of functions.
func redactFile(name string, data []byte) []byte {
	switch {
	case strings.HasSuffix(name, ".json"):
		return redactJSON(data)
	case strings.HasSuffix(name, ".prof"):
		return data
	}
	return []byte(redactText(string(data)))
}
