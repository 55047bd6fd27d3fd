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

// order is the sort key of an item in a list, and the content of page tokens.
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

// page describes how a list is selected, sorted, filtered and cut.
type page[T any] struct {
	items  iter.Seq[T]
	keep   func(T) bool
	order  func(T) order
	byTime bool // order.created is set
	// newestFirst lists are sorted from new to old even without reverse.
	newestFirst bool
}

// paging are the parameters of a page.
type paging struct {
	filter    string
	perPage   int // 0 means all
	nextToken string
	reverse   bool
}

// paging reads the parameters that all lists accept.
func (q *query) paging() (paging, error) {
	p := paramsOf(q.r)
	pg := paging{filter: p.get("filter"), nextToken: p.get("next_token")}
	var err error
	if v := p.get("per_page"); v != "" {
		if pg.perPage, err = strconv.Atoi(v); err != nil || pg.perPage < 0 {
			return pg, fail(http.StatusBadRequest, "Failed to parse value of \"per_page\" ("+v+") as a uint64")
		}
	}
	pg.reverse, err = boolParam(q.r, "reverse")
	return pg, err
}

// run returns the items of the requested page and the token of the next one.
func (p page[T]) run(ctx context.Context, pg paging) (items []T, next string, err error) {
	pg.reverse = pg.reverse != p.newestFirst
	expr, err := readFilter(pg.filter)
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
		if pg.reverse {
			a, b = b, a
		}
		return p.order(a).compare(p.order(b))
	})
	items = p.skip(pg, items)
	if expr != nil {
		if items, err = filtered(ctx, expr, items); err != nil {
			return nil, "", err
		}
	}
	if pg.perPage > 0 && len(items) > pg.perPage {
		next = p.order(items[pg.perPage]).token()
		items = items[:pg.perPage]
	}
	return items, next, nil
}

// Limits of a filter expression. Parsing takes exponentially many steps for nested
// expressions; these limits bound it to about 100 ms.
const (
	maxFilterBytes = 4 << 10
	maxFilterSteps = 50_000
)

// readFilter parses a filter expression; it returns nil for an empty one.
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

func (p page[T]) skip(pg paging, items []T) []T {
	if pg.nextToken == "" {
		return items
	}
	from := parseToken(pg.nextToken, p.byTime)
	return slices.DeleteFunc(items, func(it T) bool {
		c := p.order(it).compare(from)
		return pg.reverse && c > 0 || !pg.reverse && c < 0
	})
}

func filtered[T any](ctx context.Context, expr *bexpr.Evaluator, items []T) ([]T, error) {
	out := items[:0]
	for i, it := range items {
		if i%1024 == 0 && ctx.Err() != nil {
			return nil, ctx.Err() // the client has gone
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

// listOf returns a page of a list, each item converted by show.
func listOf[T, S any](q *query, p page[T], show func(T) S) result {
	pg, err := q.paging()
	if err != nil {
		return failed(err)
	}
	items, next, err := p.run(q.r.Context(), pg)
	if err != nil {
		return failed(err)
	}
	out := make([]S, 0, len(items))
	for _, it := range items {
		out = append(out, show(it))
	}
	return result{value: out, nextToken: next}
}

// isPrefixOfID checks an id prefix as the reference does.
func isPrefixOfID(prefix string) error {
	if len(prefix) > 36 || strings.Trim(strings.ToLower(prefix), "0123456789abcdef-") != "" {
		return fail(http.StatusBadRequest, "invalid id prefix \""+prefix+"\": ids are 36 characters of hexadecimal digits and dashes")
	}
	return nil
}
