// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"net/http"

	"github.com/drover-project/drover/core/state"
)

// A read says in its row what it reads: tables as a whole (list), one object (one) or
// the rows that belong to an object (rowsOf). From that follow the index of its answer
// and what a blocking query waits for; the functions that show what was read set
// neither.
//
// The index of an answer is the value on which a client's next blocking query waits.
// It must increase with every change of the answer and never decrease. It is
//   - for tables: the index of the newest change of any of them;
//   - for one object: its ModifyIndex, and the index of its table if it does not exist;
//   - for the rows that belong to an object: the newest ModifyIndex of any of them, and
//     of the last removal from their table, because a removed row no longer contributes
//     its own index.

// firstIndex is the smallest index of an answer. A client that received 0 would poll
// without pause, since 0 means not to wait.
const firstIndex = 1

// result is what a read shows.
type result struct {
	value     any
	nextToken string
	err       error
}

func shown(v any) result { return result{value: v} }

func failed(err error) result { return result{err: err} }

// answer is a result with its index; a blocking query waits until it exceeds the
// client's.
type answer struct {
	index uint64
	result
}

// look evaluates a read on a View.
type look func(v View, q *query) answer

// list reads tables as a whole.
func list(show func(View, *query) result, tables ...string) *action {
	return listAfter(func(*http.Request, *query) (func(View, *query) result, error) { return show, nil }, tables...)
}

// listAfter is list for a request from which something must be read first, for example
// its body.
func listAfter(begin func(*http.Request, *query) (func(View, *query) result, error), tables ...string) *action {
	return &action{limit: maxBodyBytes, tables: tables, begin: func(r *http.Request, q *query) (look, error) {
		show, err := begin(r, q)
		if err != nil {
			return nil, err
		}
		return func(v View, q *query) answer {
			q.index = v.TableIndex(tables...)
			return answer{q.index, show(v, q)}
		}, nil
	}}
}

// one reads one object from the first of the tables. If load returns an error, the object does
// not exist.
func one[T any](load func(View, *query) (T, error), modified func(T) uint64, show func(View, *query, T) result, tables ...string) *action {
	return of(tables, func(v View, q *query) answer {
		row, err := load(v, q)
		if err != nil {
			return answer{v.TableIndex(tables[0]), failed(err)}
		}
		q.index = modified(row)
		return answer{q.index, show(v, q, row)}
	})
}

// loaded are the rows that belong to an object.
type loaded[T any] struct {
	rows []T
	also uint64 // the index of another object that decides about the answer
	err  error  // the object does not exist
}

// rowsOf reads the rows of a table that belong to an object of the first of the tables.
func rowsOf[T any](table string, load func(View, *query) loaded[T], modified func(T) uint64, show func(View, *query, []T) result, tables ...string) *action {
	return of(tables, func(v View, q *query) answer {
		found := load(v, q)
		if found.err != nil {
			return answer{v.TableIndex(tables[0]), failed(found.err)}
		}
		q.index = max(v.RemovalIndex(table), found.also)
		for _, row := range found.rows {
			q.index = max(q.index, modified(row))
		}
		return answer{q.index, show(v, q, found.rows)}
	})
}

func of(tables []string, l look) *action {
	return &action{limit: maxBodyBytes, tables: tables, begin: func(*http.Request, *query) (look, error) { return l, nil }}
}

// watching sets what a blocking query waits for, if it is less than the whole tables.
func (a *action) watching(keys func(q *query) []state.Key) *action { a.keys = keys; return a }

// after adds a check of the request that comes before everything else.
func (a *action) after(check func(*http.Request) error) *action {
	begin := a.begin
	a.begin = func(r *http.Request, q *query) (look, error) {
		if err := check(r); err != nil {
			return nil, err
		}
		return begin(r, q)
	}
	return a
}

// keysOf returns what a blocking query of the request waits for.
func (a *action) keysOf(q *query) []state.Key {
	if a.keys != nil {
		return a.keys(q)
	}
	keys := make([]state.Key, len(a.tables))
	for i, t := range a.tables {
		keys[i] = state.Key{Table: t}
	}
	return keys
}

// byPathValue returns the key of the rows that the path names: by their id (by is ""),
// or by an index.
func byPathValue(table, by, name string) func(*query) []state.Key {
	return func(q *query) []state.Key { return []state.Key{{Table: table, By: by, Value: q.r.PathValue(name)}} }
}

// ofJob returns the keys of a job, and of the rows in some tables that belong to it.
func ofJob(tables ...string) func(*query) []state.Key {
	return func(q *query) []state.Key {
		key := state.JobKey(q.namespace, q.r.PathValue("id"))
		keys := []state.Key{{Table: state.TableJobs, Value: key}}
		for _, t := range tables {
			keys = append(keys, state.Key{Table: t, By: state.ByJob, Value: key})
		}
		return keys
	}
}

// partsOfJob returns the keys of a job and of the rows in another table with its id.
func partsOfJob(table string) func(*query) []state.Key {
	return func(q *query) []state.Key {
		key := state.JobKey(q.namespace, q.r.PathValue("id"))
		return []state.Key{{Table: state.TableJobs, Value: key}, {Table: table, Value: key}}
	}
}

// itself shows an object as it is.
func itself[T any](_ View, _ *query, row T) result { return shown(row) }

// orMissing returns an error if there is no object.
func orMissing[T any](row *T, text string) (*T, error) {
	if row == nil {
		return nil, fail(http.StatusNotFound, text)
	}
	return row, nil
}
