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
	// newestFirst is a list that is so without being reversed.
	newestFirst bool
}

// paging is which part of a list is asked for.
type paging struct {
	filter    string
	perPage   int // 0 is all
	nextToken string
	reverse   bool
}

// paging reads the parameters that all lists have.
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

// run returns the items of the page that pg asks for and the token of the next one.
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
	pg, err := q.paging()
	if err != nil {
		return answer{err: err}
	}
	items, next, err := p.run(q.r.Context(), pg)
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
