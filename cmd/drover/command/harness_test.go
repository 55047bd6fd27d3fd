// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/cli"

	"github.com/drover-project/drover/cmd/drover/command"
)

// TestMain fixes the zone in which times are printed.
func TestMain(m *testing.M) {
	time.Local = time.UTC
	if os.Getenv(asDrover) != "" {
		app := &cli.CLI{Name: "drover", Args: os.Args[1:], Commands: command.All(command.IO{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: map[string]string{"DROVER_ADDR": os.Getenv(asDrover)}, Context: context.Background(),
		})}
		code, _ := app.Run() // prints its errors
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// asDrover is the variable that makes the test's own program run a command line against the
// agent of this address, for commands that change their process.
const asDrover = "DROVER_TEST_ADDR"

// fake is an agent with fixed answers by "METHOD PATH?QUERY" or "METHOD PATH". It
// records the requests. If an answer is a list, its elements are returned one after
// the other, and the last one from then on.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string][]string
	asked   []string // "METHOD PATH?QUERY BODY"
}

func newFake(t *testing.T, answers map[string]string) *fake {
	f := &fake{answers: map[string][]string{}}
	for k, v := range answers {
		f.answers[k] = []string{v}
	}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // an incomplete body fails the comparison
	line := r.Method + " " + r.URL.RequestURI()
	if len(body) > 0 {
		line += " " + strings.TrimSpace(string(body))
	}
	f.mu.Lock()
	f.asked = append(f.asked, line)
	n := len(f.asked)
	key := r.Method + " " + r.URL.RequestURI()
	if _, ok := f.answers[key]; !ok {
		key = r.Method + " " + r.URL.EscapedPath()
	}
	list, ok := f.answers[key]
	answer := ""
	if ok {
		answer = list[0]
		if len(list) > 1 {
			f.answers[key] = list[1:]
		}
	}
	f.mu.Unlock()
	if !ok {
		http.Error(w, "no answer for "+key, http.StatusNotFound)
		return
	}
	w.Header().Set("X-Nomad-Index", fmt.Sprint(n+6))
	if status, text, isError := strings.Cut(answer, "!"); isError && len(status) == 3 {
		code := 0
		_, _ = fmt.Sscan(status, &code) // tests always use three digits
		http.Error(w, text, code)
		return
	}
	_, _ = io.WriteString(w, answer) // an error means that the client is gone
}

// writes returns the recorded requests that are not GET requests.
func (f *fake) writes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.asked), func(line string) bool { return strings.HasPrefix(line, "GET ") })
}

// result is the output and the exit code of a command.
type result struct {
	code     int
	out, err string
}

// at runs a command line against the agent. change may modify the command's streams
// and environment.
func (f *fake) at(t *testing.T, change func(*command.IO), args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	stdio := command.IO{In: strings.NewReader(jobFile), Out: &out, Err: &errOut, Env: map[string]string{"DROVER_ADDR": f.URL}, Context: context.Background(), Version: "1"}
	if change != nil {
		change(&stdio)
	}
	app := &cli.CLI{Name: "drover", Args: args, HelpWriter: &out, ErrorWriter: &errOut, HelpFunc: command.Help, Commands: command.All(stdio)}
	code, err := app.Run()
	if err != nil {
		t.Fatal(err)
	}
	return result{code, out.String(), errOut.String()}
}

// execute runs a command line against a fake agent with the given answers.
func execute(t *testing.T, answers map[string]string, args ...string) result {
	t.Helper()
	return newFake(t, answers).at(t, nil, args...)
}

// with sets standard input and whether it is a terminal.
func with(input string, terminal bool) func(*command.IO) {
	return func(stdio *command.IO) { stdio.In, stdio.InTerminal = strings.NewReader(input), terminal }
}
