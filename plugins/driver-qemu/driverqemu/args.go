// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"fmt"
	"slices"
	"strings"
)

// anyOption in args_allowlist allows every option.
const anyOption = "*"

// option is an option of QEMU that the driver knows.
type option struct {
	// alone means that the option takes no value.
	alone bool
	// check checks a value if the operator has no list of allowed options. A nil check
	// rejects all values. It returns the arguments to pass instead of the option and its
	// value, or nil to pass them unchanged.
	check func(value string) ([]piece, error)
}

// piece is a part of an argument list: a text, or a text that contains the name of a
// file which is opened when the VM starts.
type piece struct {
	Text string `json:"text,omitempty"`
	File *file  `json:"file,omitempty"`
}

func text(s ...string) []piece {
	out := make([]piece, len(s))
	for i := range s {
		out[i].Text = s[i]
	}
	return out
}

// userArgs is the parsed form of a task's args.
type userArgs struct {
	pieces []piece
	names  map[string]bool // names of the options used, such as "-smp"
}

func (a userArgs) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return a.names[n] })
}

// parseArgs checks a task's args. If the operator lists allowed options, exactly
// those are allowed, with any value, and QEMU itself opens the files that they name.
// Otherwise only options are allowed that give access to nothing on the machine but
// allowed images.
func parseArgs(args, allowed []string) (userArgs, error) {
	out := userArgs{names: map[string]bool{}}
	for i := 0; i < len(args); {
		name, given := canonical(args[i]), args[i]
		if name == "" {
			return out, fmt.Errorf("config.args: %q is not an option; QEMU would treat it as a disk image: use image_path, or -drive file=%s", given, given)
		}
		if first, rest, joined := strings.Cut(given, " "); joined {
			return out, fmt.Errorf("config.args: %q is a single argument and not an option; write two entries, %q and %q", given, first, strings.TrimSpace(rest))
		}
		known, isKnown := options[name]
		var value string
		hasValue := isKnown && !known.alone || !isKnown && i+1 < len(args) && canonical(args[i+1]) == ""
		if i++; hasValue {
			if i == len(args) {
				return out, fmt.Errorf("config.args: %s needs a value after it", given)
			}
			value = args[i]
			i++
		}
		pieces, err := checkOption(name, value, hasValue, known, allowed)
		if err != nil {
			return out, err
		}
		out.names[name] = true
		out.pieces = append(out.pieces, pieces...)
	}
	return out, nil
}

// canonical returns an option's name with one dash, because QEMU treats -smp and
// --smp alike. It returns "" if arg is not an option.
func canonical(arg string) string {
	name := strings.TrimPrefix(arg, "-")
	if name == arg {
		return ""
	}
	name = strings.TrimPrefix(name, "-")
	if name == "" {
		return ""
	}
	return "-" + name
}

func checkOption(name, value string, hasValue bool, known option, allowed []string) ([]piece, error) {
	asIs := text(name)
	if hasValue {
		asIs = text(name, value)
	}
	if len(allowed) > 0 {
		if slices.ContainsFunc(allowed, func(a string) bool { return a == anyOption || canonical(a) == name }) {
			return asIs, nil
		}
		return nil, &refusedError{fmt.Sprintf("config.args: %s is not in the agent's args_allowlist (%s)", name, strings.Join(allowed, ", "))}
	}
	const cure = "; an operator can allow it by args_allowlist in the agent's plugin \"qemu\" config"
	if known.alone && known.check == nil && harmless[name] {
		return asIs, nil
	}
	if known.check == nil {
		if why := instead[name]; why != "" {
			return nil, &refusedError{fmt.Sprintf("config.args: %s is not allowed: %s", name, why)}
		}
		return nil, &refusedError{fmt.Sprintf("config.args: %s is not allowed: it may reach the machine", name) + cure}
	}
	pieces, err := known.check(value)
	if err != nil {
		return nil, &refusedError{fmt.Sprintf("config.args: %s %q: %v", name, value, err) + cure}
	}
	if pieces == nil {
		return asIs, nil
	}
	return pieces, nil
}

// refusedError is returned if a task uses something that its node does not allow.
type refusedError struct{ text string }

func (e *refusedError) Error() string { return e.text }

// property is one part of a value, such as if=virtio in "file=x,if=virtio". A part
// without "=" has only a name.
type property struct{ name, value string }

// properties splits a value as QEMU does: at commas, where a double comma stands for
// one comma.
func properties(value string) []property {
	var out []property
	for len(value) > 0 {
		var part strings.Builder
		for len(value) > 0 {
			if strings.HasPrefix(value, ",,") {
				part.WriteByte(',')
				value = value[2:]
				continue
			}
			c := value[0]
			value = value[1:]
			if c == ',' {
				break
			}
			part.WriteByte(c)
		}
		name, v, _ := strings.Cut(part.String(), "=")
		out = append(out, property{name, v})
	}
	return out
}

// escape doubles the commas of a value.
func escape(value string) string { return strings.ReplaceAll(value, ",", ",,") }

// join is the reverse of properties.
func join(props []property) string {
	parts := make([]string, len(props))
	for i, p := range props {
		if parts[i] = escape(p.name); p.value != "" {
			parts[i] += "=" + escape(p.value)
		}
	}
	return strings.Join(parts, ",")
}
