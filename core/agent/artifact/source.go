// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// maxSource bounds a source with its options, in bytes.
const maxSource = 64 << 10

// sourceOf returns the artifact's source with its options as query parameters.
func sourceOf(a *model.TaskArtifact) (string, error) {
	source := strings.TrimSpace(a.GetterSource)
	if source == "" {
		return "", errdefs.InvalidArgumentf("the artifact has no source; set source")
	}
	if len(a.GetterOptions) > 0 {
		options := url.Values{}
		for k, v := range a.GetterOptions {
			options.Set(k, v)
		}
		source = withOptions(source, options)
	}
	if len(source) > maxSource {
		return "", errdefs.InvalidArgumentf("the source with its options has %d bytes; at most %d are taken", len(source), maxSource)
	}
	if strings.ContainsAny(source, "\x00\r\n") {
		return "", errdefs.InvalidArgumentf("the source has a line break or a zero byte; write it on one line")
	}
	return source, nil
}

// withOptions adds query parameters to a source. Options override parameters with the
// same name. They are appended to a source that is not a URL (git@host:path).
func withOptions(source string, options url.Values) string {
	forced, rest := "", source
	if i := strings.Index(source, "::"); i >= 0 {
		forced, rest = source[:i+2], source[i+2:]
	}
	u, err := url.Parse(rest)
	if err != nil {
		sep := "?"
		if strings.Contains(rest, "?") {
			sep = "&"
		}
		return source + sep + options.Encode()
	}
	q := u.Query()
	for k, v := range options {
		q[k] = v
	}
	u.RawQuery = q.Encode()
	return forced + u.String()
}

// plainParams are the query parameters whose values are not secret.
var plainParams = []string{"archive", "checksum", "ref", "depth", "filename", "region", "version", "rev", "terraform-get", "aws_profile"}

// Redact returns a source without credentials: no password, and no value of a
// query parameter that is not known to be harmless.
func Redact(source string) string {
	forced, rest := "", source
	if i := strings.Index(source, "::"); i >= 0 {
		forced, rest = source[:i+2], source[i+2:]
	}
	u, err := url.Parse(rest)
	if err != nil {
		before, _, _ := strings.Cut(rest, "?")
		if _, host, ok := strings.Cut(before, "@"); ok && strings.Contains(before, ":") {
			before = "redacted@" + host
		}
		return forced + before
	}
	if u.User != nil {
		u.User = url.User("redacted")
	}
	q := u.Query()
	for k := range q {
		if !slices.Contains(plainParams, k) {
			q[k] = []string{"redacted"}
		}
	}
	u.RawQuery = q.Encode()
	return forced + u.String()
}

// minSecret is the minimum length of values that are removed from errors; removing
// shorter ones would garble the text.
const minSecret = 4

// hideSecrets removes the credentials of a source and the values of its headers from
// the text of an error that others have produced. It keeps the error's class.
func hideSecrets(err error, source string, a *model.TaskArtifact) error {
	text := err.Error()
	var pairs []string
	hide := func(secret string) {
		for _, form := range []string{secret, url.QueryEscape(secret), url.PathEscape(secret)} {
			if len(form) >= minSecret && strings.Contains(text, form) {
				pairs = append(pairs, form, "redacted")
			}
		}
	}
	for _, v := range a.GetterHeaders {
		hide(v)
	}
	_, rest, ok := strings.Cut(source, "::")
	if !ok {
		rest = source
	}
	_, query, _ := strings.Cut(rest, "?")
	values, _ := url.ParseQuery(query) // as far as it can be parsed
	for k, vs := range values {
		for _, v := range vs {
			if !slices.Contains(plainParams, k) {
				hide(v)
			}
		}
	}
	if u, perr := url.Parse(rest); perr == nil && u.User != nil {
		if p, ok := u.User.Password(); ok {
			hide(p)
		}
		hide(u.User.String())
	}
	if len(pairs) == 0 {
		return err
	}
	return errdefs.New(errdefs.ClassOf(err), errors.New(strings.NewReplacer(pairs...).Replace(text)))
}
