// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// decodeOne decodes one JSON value. It rejects data after it, and bytes that are not UTF-8,
// for which encoding/json would put other characters.
func decodeOne(body []byte, v any) error {
	if err := model.CheckUTF8(body); err != nil {
		return fmt.Errorf("the request body %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(v); err != nil {
		return model.WrongType(err, body, v, "")
	}
	if dec.More() {
		return errors.New("the request body has more after its JSON value; send one value")
	}
	return nil
}

func noteUnread(r *http.Request, body []byte, v any) error {
	fields := model.UnreadFields(body, reflect.TypeOf(v))
	for _, f := range fields {
		if conditionsBody(f) {
			return fail(http.StatusBadRequest, "the field "+f+" is not known to this request, so nothing was done: leave it out")
		}
	}
	for _, f := range fields {
		note(r, "field "+quoteName(f)+" of the body is not acted on")
	}
	return nil
}

// conditionsBody reports whether a body field corresponds to a parameter that makes a
// write conditional, as DryRun corresponds to dry_run.
func conditionsBody(field string) bool {
	name := field[strings.LastIndex(field, ".")+1:]
	return slices.ContainsFunc(conditions, func(c string) bool {
		return strings.EqualFold(name, strings.NewReplacer("-", "", "_", "").Replace(c))
	})
}
