// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command comments draws comments of the repository's Go files at random and
// prints each with its file and line, so that a reviewer can judge how the code
// reads. The same seed on the same files draws the same comments:
//
//	go run ./internal/repotest/cmd/comments -n 100 -seed 7 [folder or file ...]
//
// It skips generated files, licence headers and directives. Test files count
// only with -tests.
package main

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

type comment struct {
	file string
	line int
	text string
}

func main() {
	n := flag.Int("n", 100, "how many comments to draw; 0 prints all of them, in the order of the files")
	seed := flag.Uint64("seed", 1, "seed of the draw")
	tests := flag.Bool("tests", false, "draw from test files too")
	flag.Parse()
	roots := flag.Args()
	if len(roots) == 0 {
		roots = []string{"."}
	}
	all, err := collect(roots, *tests)
	if err != nil {
		fmt.Fprintf(os.Stderr, "comments: %v\n", err)
		os.Exit(1)
	}
	drawn := draw(all, *n, *seed)
	for _, c := range drawn {
		fmt.Printf("%s:%d\n\t%s\n\n", c.file, c.line, strings.ReplaceAll(c.text, "\n", "\n\t"))
	}
	fmt.Fprintf(os.Stderr, "%d of %d comments, seed %d\n", len(drawn), len(all), *seed)
}

// draw returns n of the comments, sorted by file and line. It returns all of
// them if n is 0 or larger than their number.
func draw(all []comment, n int, seed uint64) []comment {
	if n <= 0 || n >= len(all) {
		return all
	}
	random := rand.New(rand.NewPCG(seed, 0))
	drawn := make([]comment, 0, n)
	for _, i := range random.Perm(len(all))[:n] {
		drawn = append(drawn, all[i])
	}
	slices.SortFunc(drawn, func(a, b comment) int {
		if a.file != b.file {
			return strings.Compare(a.file, b.file)
		}
		return a.line - b.line
	})
	return drawn
}

// collect returns the comments of every Go file below roots. It does not enter
// hidden folders.
func collect(roots []string, tests bool) ([]comment, error) {
	var all []comment
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != root && strings.HasPrefix(d.Name(), "."):
				return fs.SkipDir
			case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") && !tests:
				return nil
			}
			found, err := inFile(path)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// inFile returns the comments of one file, or none if the file is generated.
func inFile(path string) ([]comment, error) {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if ast.IsGenerated(f) {
		return nil, nil
	}
	var found []comment
	for _, group := range f.Comments {
		// Text drops directives, so a group of nothing else has no text.
		text := strings.TrimSpace(group.Text())
		if text == "" || strings.Contains(text, "SPDX-License-Identifier") {
			continue
		}
		found = append(found, comment{file: path, line: set.Position(group.Pos()).Line, text: text})
	}
	return found, nil
}
