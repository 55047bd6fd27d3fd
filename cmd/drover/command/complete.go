// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package command

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/posener/complete"

	"github.com/drover-project/drover/core/api/client"
)

// completeWithin is how long an agent may take to propose ids: the user waits.
const completeWithin = 2 * time.Second

// flagValues says what the values of flags are: contexts of searches or files.
var flagValues = map[string]string{"namespace": "namespaces", "job": "jobs", "node-id": "nodes", "node-pool": "node_pools", "alloc": "allocs",
	"var-file": takesFiles, "ca-cert": takesFiles, "ca-path": takesFiles, "client-cert": takesFiles, "client-key": takesFiles}

// AutocompleteFlags lists the flags for the shell.
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

// AutocompleteArgs proposes what the command takes.
func (a *adapter) AutocompleteArgs() complete.Predictor { return a.predict(a.spec.takes) }

func (a *adapter) predict(takes string) complete.Predictor {
	switch {
	case takes == "":
		return complete.PredictNothing
	case takes == takesFiles:
		return complete.PredictFiles("*")
	case a.spec.offline:
		return complete.PredictSet(strings.Fields(takes)...)
	}
	return complete.PredictFunc(func(typed complete.Args) []string { return a.ids(takes, typed) })
}

// ids asks the agent for ids that begin as was typed. Whatever goes wrong, the
// shell proposes nothing: there is nobody to tell.
func (a *adapter) ids(kind string, typed complete.Args) []string {
	fs, c, _ := a.flags()
	known := typed.All[:max(len(typed.All)-1, 0)]
	for i, word := range known { // the address and the like, as far as they are written
		if name := strings.TrimLeft(word, "-"); name != word && fs.Lookup(name) != nil && i+1 < len(known) {
			_ = fs.Set(name, known[i+1]) // a value that does not fit is not used
		} else if name, value, ok := strings.Cut(name, "="); ok && fs.Lookup(name) != nil {
			_ = fs.Set(name, value) // as above
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
	res, err := agent.Search(ctx, typed.Last, kind)
	if err != nil {
		return nil
	}
	var out []string
	for _, ids := range res.Matches {
		out = append(out, ids...)
	}
	return out
}

// completions are the scripts by shell. Each asks drover itself, with the line
// in the environment, for what may follow.
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
		usage: "completion bash|zsh|fish", synopsis: "Prints the completion of a shell", min: 1, max: 1, offline: true, takes: "bash zsh fish",
		help: "Commands, options and ids of the cluster are completed.\n\n  bash: source <(drover completion bash)\n  zsh:  source <(drover completion zsh)\n  fish: drover completion fish | source\n\ndrover -autocomplete-install does it for good.",
		setup: func(*flag.FlagSet) run {
			return func(_ context.Context, s *session, args []string) error {
				script, ok := completions[args[0]]
				if !ok {
					return fmt.Errorf("there is no completion of %q; write bash, zsh or fish", args[0])
				}
				_, err := io.WriteString(s.Out, script)
				return err
			}
		},
	}
}
