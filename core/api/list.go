// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/go-bexpr"
)

// order is the position of an item in a list: lists are sorted by it and page
// tokens name it.
type order struct {
	created uint64
	id      string
}

func (o order) compare(p order) int {
	return cmp.Or(cmp.Compare(o.created, p.created), strings.Compare(o.id, p.id))
}

func (o order) token() string {
	if o.created == 0 {
		return o.id
	}
	return strconv.FormatUint(o.created, 10) + "." + o.id
}

func parseToken(s string, byTime bool) order {
	if !byTime {
		return order{id: s}
	}
	head, rest, ok := strings.Cut(s, ".")
	n, err := strconv.ParseUint(head, 10, 64)
	if !ok || err != nil {
		return order{id: s}
	}
	return order{created: n, id: rest}
}

// page selects, sorts, filters and cuts a list.
type page[T any] struct {
	items  iter.Seq[T]
	keep   func(T) bool
	order  func(T) order
	byTime bool // order.created is set
}

// run returns the items of the page that q asks for and the token of the next one.
func (p page[T]) run(q *query) (items []T, next string, err error) {
	expr, err := readFilter(q.filter)
	if err != nil {
		return nil, "", err
	}
	items = []T{}
	for it := range p.items {
		if p.keep == nil || p.keep(it) {
			items = append(items, it)
		}
	}
	slices.SortStableFunc(items, func(a, b T) int {
		if q.reverse {
			a, b = b, a
		}
		return p.order(a).compare(p.order(b))
	})
	items = p.skip(q, items)
	if expr != nil {
		if items, err = filtered(q.r.Context(), expr, items); err != nil {
			return nil, "", err
		}
	}
	if q.perPage > 0 && len(items) > q.perPage {
		next = p.order(items[q.perPage]).token()
		items = items[:q.perPage]
	}
	return items, next, nil
}

// Bounds of a filter expression. Reading one takes steps that grow much faster
// than its length where it is nested: these bound it to some 100 ms.
const (
	maxFilterBytes = 4 << 10
	maxFilterSteps = 50_000
)

// readFilter reads a filter expression; nil is none.
func readFilter(text string) (*bexpr.Evaluator, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxFilterBytes {
		return nil, fail(http.StatusBadRequest, "the filter expression is longer than "+strconv.Itoa(maxFilterBytes)+" bytes")
	}
	expr, err := bexpr.CreateEvaluator(text, bexpr.WithMaxExpressions(maxFilterSteps))
	if err != nil {
		return nil, fail(http.StatusBadRequest, "failed to create result paginator: failed to read filter expression: "+err.Error())
	}
	return expr, nil
}

func (p page[T]) skip(q *query, items []T) []T {
	if q.nextToken == "" {
		return items
	}
	from := parseToken(q.nextToken, p.byTime)
	return slices.DeleteFunc(items, func(it T) bool {
		c := p.order(it).compare(from)
		return q.reverse && c > 0 || !q.reverse && c < 0
	})
}

func filtered[T any](ctx context.Context, expr *bexpr.Evaluator, items []T) ([]T, error) {
	out := items[:0]
	for i, it := range items {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err() // nobody waits for the rest of a long list
		}
		ok, err := expr.Evaluate(it)
		if err != nil {
			return nil, fail(http.StatusBadRequest, "failed to read intermediate page: failed to evaluate filter expression: "+err.Error())
		}
		if ok {
			out = append(out, it)
		}
	}
	return out, nil
}

// listOf answers a list: items of the page, each turned into what is shown.
func listOf[T, S any](q *query, index uint64, p page[T], show func(T) S) answer {
	items, next, err := p.run(q)
	if err != nil {
		return answer{index: index, err: err}
	}
	out := make([]S, 0, len(items))
	for _, it := range items {
		out = append(out, show(it))
	}
	return answer{index: index, value: out, nextToken: next}
}

// isPrefixOfID checks an id prefix as the reference does.
func isPrefixOfID(prefix string) error {
	if len(prefix) > 36 || strings.Trim(strings.ToLower(prefix), "0123456789abcdef-") != "" {
		return fail(http.StatusBadRequest, "invalid id prefix \""+prefix+"\": ids are 36 characters of hexadecimal digits and dashes")
	}
	return nil
}
