// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is version 1 of the contract between Drover and a task driver
// plugin, and the manual of its author. It owns the interface Driver, its types
// and their wire form (hidden). It does not own how a plugin process is found,
// started and watched: that is core/pluginhost. Plugins import it, and so does
// core/pluginhost/driver, which alone may in core.
//
// # A plugin
//
// A plugin is an executable in the agent's plugin_dir. Its main hands its drivers
// to plugin.Serve:
//
//	func main() {
//		info := plugin.Info{Name: "driver-shell", Version: "0.1.0"}
//		if err := plugin.Serve(info, driver.Service(shelldriver.New("shell"))); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//	}
//
// One process serves any number of drivers, each under its own name. Start from
// what `drover plugin new -kind driver NAME` writes: a module with a whole driver.
// One line in its test checks every rule of this contract: see drivertest, and
// drivercheck for the rules by name.
//
// # The life of the process
//
// The process is no part of any task. The agent may end it, kill it, replace it by
// a newer version, or be killed itself and come back, while tasks run. So:
//
//   - Tasks must survive the process: give them a session of their own and send
//     their output somewhere that needs no reader in this process.
//   - A Handle holds all that a new process needs to find a task again. It is
//     made once, by StartTask, and never changes. Raise Handle.Version when the
//     form of State changes, and go on reading the older ones.
//   - A process starts with no tasks. The host calls Info, SetConfig, then
//     RecoverTask for each task it knows, and lets other calls through after that.
//   - An exit code must not be lost while no process of the driver runs. Where the
//     driver cannot know it, it says so in ExitResult.Err instead of guessing.
//   - Nothing but the log goes to stderr: use plugin.Logger. Writes to it may fail
//     when the agent is gone, and must not end the process; Serve sees to SIGPIPE.
//
// The host asks the process for its Info every few seconds and kills it when it
// does not answer several times in a row, so no driver may block the whole
// process. It gets few environment variables and no files of the agent.
//
// # Calls
//
//   - Every call comes with a ctx. When it ends, return soon with its error.
//     Only StopTask and StartTask carry on or clean up: see there.
//   - Calls for different tasks come at the same time, and calls for one task can
//     too, as WaitTask with everything else.
//   - Recover, stop, destroy and wait may be repeated: the caller may not have
//     seen the answer to the first. A start is not repeated under the same ID
//     unless a destroy came between.
//   - Say "gone" only when it is certain. NotFound from RecoverTask makes the task
//     lost and replaced; Unavailable makes the agent ask again.
//
// # Errors
//
// Return errors of a class of sdk/errdefs, with a text that names the cause and
// the cure, since users read it in the events of their task:
//
//	return errdefs.InvalidArgumentf("command %q is not in PATH or in the task's directory; correct config.command", name)
//
// Class, text and whether a retry is useful travel over the wire. An error without
// a class is Internal.
//
// # Streams
//
// Fingerprint, TaskStats and TaskEvents return channels that the driver closes
// when ctx ends, and only then. A driver that cannot serve one returns an error of
// class Unimplemented instead of a channel.
//
// # Config
//
// Info publishes two schemas (sdk/schema). The CLI, the servers and the agent check
// job files and agent files against them before the driver is called, and fill in
// defaults, so a driver only has to check what a schema cannot say. DriverConfig
// and SetConfig's config are JSON objects with exactly the names of the schema.
//
// # Other languages
//
// sdk/proto has the source of the wire form. The handshake is that of go-plugin
// with the cookie and protocol version of sdk/plugin, gRPC over a unix socket in
// the directory that PLUGIN_UNIX_SOCKET_DIR names, and no TLS. The manual is
// docs/plugins/other-languages.md, and examples/plugins/python a whole driver.
package driver
