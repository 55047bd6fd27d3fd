// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/cmd/drover/command"
)

var rewrite = flag.Bool("rewrite", false, "write docs/cli and docs/drover.1 anew instead of comparing them")

// docs is the documentation directory.
var docs = filepath.Join("..", "..", "..", "docs")

const generated = "Made from the command table by `go test ./cmd/drover/command -run TestTheReference -rewrite`."

func TestTheReferenceIsThatOfTheCommandTable(t *testing.T) {
	want := pages()
	want["drover.1"] = manual()
	if *rewrite {
		if err := os.RemoveAll(filepath.Join(docs, "cli")); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		path := filepath.Join(docs, name)
		if *rewrite {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want[name]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want[name] {
			t.Errorf("docs/%s is out of date; run: go test ./cmd/drover/command -run TestTheReference -rewrite", name)
		}
	}
	files, err := filepath.Glob(filepath.Join(docs, "cli", "*"))
	if err != nil || len(files) != len(want)-1 {
		t.Errorf("docs/cli has %d files, want %d; %v", len(files), len(want)-1, err)
	}
}

// pages returns the files of the CLI reference, one for each family of commands.
func pages() map[string]string {
	families := map[string][]command.Entry{}
	for _, e := range command.Describe() {
		family, _, nested := strings.Cut(e.Name, " ")
		if !nested && command.GroupSynopsis(family) == "" && family != "monitor" {
			family = "other"
		}
		families[family] = append(families[family], e)
	}
	out := map[string]string{}
	index := "# Commands\n\n" + generated + "\n\n| command | what it does |\n|---|---|\n"
	for _, family := range slices.Sorted(maps.Keys(families)) {
		page := "# drover " + family + "\n\n"
		if family == "other" {
			page = "# Other commands\n\n"
		}
		if about := command.GroupSynopsis(family); about != "" {
			page += about + ". "
		}
		page += "Every command that talks to an agent also takes the [general options](general.md).\n\n" + generated + "\n"
		for _, e := range families[family] {
			index += fmt.Sprintf("| [%s](%s.md#drover-%s) | %s |\n", e.Name, family, strings.ReplaceAll(e.Name, " ", "-"), cell(e.Synopsis))
			page += section(e)
		}
		out["cli/"+family+".md"] = page
	}
	out["cli/README.md"] = index
	out["cli/general.md"] = "# General options\n\nOf every command that talks to an agent.\n\n" + generated + "\n\n" + flagTable(command.GeneralFlags())
	return out
}

func cell(text string) string {
	return strings.NewReplacer("|", "\\|", "<", "&lt;", ">", "&gt;").Replace(text)
}

func section(e command.Entry) string {
	s := fmt.Sprintf("\n## drover %s\n\n%s.\n\n```\ndrover %s\n```\n", e.Name, e.Synopsis, e.Usage)
	if e.Help != "" {
		s += "\n" + strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(e.Help) + "\n"
	}
	if len(e.Aliases) > 0 {
		s += "\nAlso: `drover " + strings.Join(e.Aliases, "`, `drover ") + "`.\n"
	}
	if len(e.Flags) > 0 {
		s += "\n" + flagTable(e.Flags)
	}
	return s
}

// isPlain reports whether the default of a flag is its zero value and need not be
// documented.
func isPlain(f *flag.Flag) bool {
	return slices.Contains([]string{"", "false", "0", "0s", "-1"}, f.DefValue)
}

func flagTable(flags []*flag.Flag) string {
	s := "| option | what it does | default |\n|---|---|---|\n"
	for _, f := range flags {
		value := ""
		if !isPlain(f) {
			value = "`" + f.DefValue + "`"
		}
		s += fmt.Sprintf("| `-%s` | %s | %s |\n", f.Name, cell(f.Usage), value)
	}
	return s
}

// manual returns the manual page.
func manual() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line(`.\" %s`, generated)
	line(`.TH DROVER 1 "" "Drover" "User Commands"`)
	line(".SH NAME\ndrover \\- run work on one machine or many")
	line(".SH SYNOPSIS\n.B drover\n[\\-version] [\\-help] <command> [<args>]")
	line(".SH DESCRIPTION\nDrover is a workload orchestrator: job files in, running and healthy work out.")
	line("This page lists its commands. Flags may stand before and after arguments and begin with one or two dashes.")
	line("Any command that takes an id takes a prefix of it.\n.SH GENERAL OPTIONS\nOf every command that talks to an agent.")
	for _, f := range command.GeneralFlags() {
		line(".TP\n.B \\-%s\n%s", roff(f.Name), roff(f.Usage))
	}
	line(".SH COMMANDS")
	for _, e := range command.Describe() {
		line(".SS drover %s\n%s.\n.PP\n.B drover\n%s", roff(e.Name), roff(e.Synopsis), roff(e.Usage))
		if e.Help != "" {
			line(".PP\n%s", strings.ReplaceAll(roff(e.Help), "\n\n", "\n.PP\n"))
		}
		if len(e.Aliases) > 0 {
			line(".PP\nAlso: drover %s.", roff(strings.Join(e.Aliases, ", drover ")))
		}
		for _, f := range e.Flags {
			value := ""
			if !isPlain(f) {
				value = " Default: " + f.DefValue + "."
			}
			line(".TP\n.B \\-%s\n%s", roff(f.Name), roff(f.Usage+value))
		}
	}
	line(".SH ENVIRONMENT\nDROVER_ADDR, DROVER_TOKEN, DROVER_NAMESPACE, DROVER_REGION, DROVER_CACERT, DROVER_CAPATH, DROVER_CLIENT_CERT, DROVER_CLIENT_KEY,")
	line("DROVER_TLS_SERVER_NAME, DROVER_SKIP_VERIFY and DROVER_HTTP_AUTH (NAME:PASSWORD, for a proxy before the agent) set the general options; NOMAD_* does where they are not set. NO_COLOR switches colours off.")
	line(".SH EXIT STATUS\n.TP\n.B 0\ndone\n.TP\n.B 1\nan error, or a roll-out that was followed failed; of plan: allocations would change")
	line(".TP\n.B 2\nregistered, but not everything could be placed\n.TP\n.B 130\ninterrupted\n.TP\n.B 255\nof plan: an error")
	line(".PP\nalloc exec, job action and var lock exit as the command that they run.")
	return b.String()
}

// roff escapes text so that no line is a roff request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		l = strings.TrimLeft(l, " ")
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			l = `\&` + l
		}
		lines[i] = l
	}
	return strings.Join(lines, "\n")
}

func TestTheManualPageIsCleanRoff(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed")
	}
	cmd := exec.CommandContext(t.Context(), groff, "-man", "-Tascii", "-P-cbu", "-ww")
	cmd.Stdin = strings.NewReader(manual())
	var errOut strings.Builder
	cmd.Stderr = &errOut
	page, err := cmd.Output()
	if err != nil || errOut.Len() > 0 {
		t.Fatalf("%v\n%s", err, errOut.String())
	}
	for _, want := range []string{"drover job run", "registers a job", "-check-index"} {
		if !strings.Contains(strings.ToLower(string(page)), want) {
			t.Errorf("the page does not show %q", want)
		}
	}
}
