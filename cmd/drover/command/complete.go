// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/drover-project/drover/cmd/drover/scaffold"
	"github.com/drover-project/drover/core/api/client"
)

// completeWithin is the time limit for asking the agent for ids, because the user
// waits for the completion.
const completeWithin = 2 * time.Second

// flagValues says what the values of a flag are: a search context, takesFiles, or the words
// that it may have in an offline command.
var flagValues = map[string]string{"lang": strings.Join(scaffold.Langs, " "), "namespace": "namespaces", "job": "jobs", "node-id": "nodes", "node": "nodes", "node-pool": "node_pools", "alloc": "allocs",
	"var-file": takesFiles, "config": takesFiles, "dir": takesFiles, "replace": takesFiles, "task-config": takesFiles, "ca-cert": takesFiles, "ca-path": takesFiles, "client-cert": takesFiles, "client-key": takesFiles}

// AutocompleteFlags implements cli.CommandAutocomplete.
func (a *adapter) AutocompleteFlags() complete.Flags {
	out := complete.Flags{}
	fs, _, _ := a.flags()
	fs.VisitAll(func(f *flag.Flag) {
		b, ok := f.Value.(interface{ IsBoolFlag() bool })
		switch {
		case ok && b.IsBoolFlag():
			out["-"+f.Name] = complete.PredictNothing
		case flagValues[f.Name] != "":
			out["-"+f.Name] = a.predict(flagValues[f.Name])
		default:
			out["-"+f.Name] = complete.PredictAnything
		}
	})
	return out
}

// AutocompleteArgs implements cli.CommandAutocomplete.
func (a *adapter) AutocompleteArgs() complete.Predictor { return a.predict(a.spec.takes) }

func (a *adapter) predict(takes string) complete.Predictor {
	switch {
	case takes == "":
		return complete.PredictNothing
	case takes == takesFiles:
		return complete.PredictFiles("*")
	case takes == takesPluginFile:
		return complete.PredictOr(a.predict(takesPlugins), complete.PredictFiles("*"))
	case a.spec.offline:
		return complete.PredictSet(strings.Fields(takes)...)
	}
	return complete.PredictFunc(func(typed complete.Args) []string { return a.ids(takes, typed) })
}

// ids asks the agent for ids that begin with the typed text. On any error it returns
// nothing, since there is nowhere to print the error.
func (a *adapter) ids(kind string, typed complete.Args) []string {
	fs, c, _ := a.flags()
	known := typed.All[:max(len(typed.All)-1, 0)]
	for i, word := range known { // flags that were already typed, such as the address
		if name := strings.TrimLeft(word, "-"); name != word && fs.Lookup(name) != nil && i+1 < len(known) {
			_ = fs.Set(name, known[i+1]) // an invalid value is ignored
		} else if name, value, ok := strings.Cut(name, "="); ok && fs.Lookup(name) != nil {
			_ = fs.Set(name, value) // an invalid value is ignored
		}
	}
	if typed.LastCompleted == "-namespace" {
		c.cfg.Namespace = ""
	}
	agent, err := client.New(c.cfg)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), completeWithin)
	defer cancel()
	if kind == takesPlugins {
		return pluginNames(ctx, agent, fs, typed.Last)
	}
	if kind == takesRegistry {
		return registryNames(ctx, agent, typed.Last)
	}
	res, err := agent.Search(ctx, typed.Last, kind)
	if err != nil {
		return nil
	}
	var out []string
	for _, ids := range res.Matches {
		out = append(out, ids...)
	}
	if len(out) == 0 && a.spec.past {
		return pastIDs(ctx, agent, kind, typed.Last)
	}
	return out
}

// pluginNames returns the plugins of the node that -node selects.
func pluginNames(ctx context.Context, agent *client.Client, fs *flag.FlagSet, prefix string) []string {
	node := ""
	if f := fs.Lookup("node"); f != nil && len(f.Value.String()) == 36 {
		node = f.Value.String()
	}
	plugins, err := agent.AgentPlugins(ctx, node)
	if err != nil {
		return nil
	}
	var out []string
	for _, p := range plugins {
		if strings.HasPrefix(p.Name, prefix) {
			out = append(out, p.Name)
		}
	}
	return out
}

// completions maps each shell to its completion script. The scripts run drover
// itself, with the command line in the environment.
var completions = map[string]string{
	"bash": `_drover() {
  local line="${COMP_WORDS[*]:0:COMP_CWORD+1}" IFS=$'\n'
  COMPREPLY=($(COMP_LINE="$line" COMP_POINT="${#line}" drover 2>/dev/null))
}
complete -o default -F _drover drover
`,
	"zsh": `#compdef drover
_drover() {
  local line="${words[1,CURRENT]}"
  local -a found
  found=("${(@f)$(COMP_LINE="$line" COMP_POINT="${#line}" drover 2>/dev/null)}")
  if [[ -n "$found" ]]; then
    compadd -- $found
  else
    _files
  fi
}
if [[ "$funcstack[1]" = "_drover" ]]; then
  _drover "$@"
else
  compdef _drover drover
fi
`,
	"fish": `function __drover_complete
  set -l line (commandline -cp)
  env COMP_LINE="$line" COMP_POINT=(string length -- "$line") drover 2>/dev/null
end
complete -c drover -f -a '(__drover_complete)'
`,
}

func completion() spec {
	return spec{
		usage: "completion [options] bash|zsh|fish", synopsis: "Prints a shell completion script, or installs it for all shells", max: 1, offline: true, takes: "bash zsh fish",
		help: "Completes commands, options and the ids of objects in the cluster.\n\n  bash: source <(drover completion bash)\n  zsh:  source <(drover completion zsh)\n  fish: drover completion fish | source\n\n-install adds the completion to ~/.bashrc, ~/.zshrc and fish's configuration where they exist.\ndrover -autocomplete-install and -autocomplete-uninstall do the same.",
		setup: func(flags *flag.FlagSet) run {
			install := flags.Bool("install", false, "Installs the completion for this user's shells.")
			uninstall := flags.Bool("uninstall", false, "Removes the completion from this user's shells.")
			return func(_ context.Context, s *session, args []string) error {
				switch {
				case *install && *uninstall, (*install || *uninstall) == (len(args) == 1):
					return errors.New("give a shell (bash, zsh or fish), or -install, or -uninstall")
				case *install || *uninstall:
					return s.installCompletion(*uninstall)
				}
				script, ok := completions[args[0]]
				if !ok {
					return fmt.Errorf("completion for %q is not supported; use bash, zsh or fish", args[0])
				}
				_, err := io.WriteString(s.Out, script)
				return err
			}
		},
	}
}

// installed is the comment that ends every line which installCompletion writes.
const installed = " # by drover -autocomplete-install"

// installCompletion adds the completion to the user's shells, or removes it. The
// lines name this binary, so that no program has to run when a shell starts.
func (s *session) installCompletion(remove bool) error {
	home := s.Env["HOME"]
	if home == "" {
		return errors.New("HOME is not set; add the output of `drover completion <shell>` to the shell's configuration by hand")
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find the path of the drover executable: %w", err)
	}
	line := "complete -o default -C " + quoteShell(exe) + " drover" + installed + "\n"
	var done []string
	for file, text := range map[string]string{".bashrc": line, ".zshrc": "autoload -U +X bashcompinit && bashcompinit" + installed + "\n" + line} {
		path := filepath.Join(home, file)
		if err := rewriteLines(path, text, remove); err == nil {
			done = append(done, path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot change %s: %w", path, err)
		}
	}
	fish := filepath.Join(home, ".config", "fish")
	if _, err := os.Stat(fish); err == nil {
		path := filepath.Join(fish, "completions", "drover.fish")
		if err := writeFish(path, remove); err != nil {
			return fmt.Errorf("cannot change %s: %w", path, err)
		}
		done = append(done, path)
	}
	if len(done) == 0 {
		return fmt.Errorf("%s has no .bashrc, no .zshrc and no .config/fish; see: drover completion -h", home)
	}
	sort.Strings(done)
	s.printf("%s: %s", map[bool]string{false: "Completion added to", true: "Completion removed from"}[remove], strings.Join(done, ", "))
	return nil
}

// rewriteLines removes our lines from a file and, unless remove is true, appends
// text.
func rewriteLines(path, text string, remove bool) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b strings.Builder
	for l := range strings.Lines(string(old)) {
		if !strings.HasSuffix(strings.TrimRight(l, "\n"), installed) {
			b.WriteString(l)
		}
	}
	if !remove {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteString("\n")
		}
		b.WriteString(text)
	}
	return os.WriteFile(path, []byte(b.String()), info.Mode().Perm())
}

func writeFish(path string, remove bool) error {
	if remove {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(completions["fish"]), 0o644)
}
