// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package driver is version 1 of the contract between Drover and task driver plugins,
// and the manual for their authors. It owns the interface Driver, its types and their
// wire form (hidden). It does not own the discovery, start and supervision of plugin
// processes: that is core/pluginhost. Plugins import it; in core, only
// core/pluginhost/driver may.
//
// # A plugin
//
// A plugin is an executable in the agent's plugin_dir. Its main function passes its
// drivers to plugin.Serve:
//
//	func main() {
//		info := plugin.Info{Name: "driver-shell", Version: "0.1.0"}
//		if err := plugin.Serve(info, driver.Service(shelldriver.New("shell"))); err != nil {
//			fmt.Fprintln(os.Stderr, err)
//			os.Exit(1)
//		}
//	}
//
// One process serves any number of drivers, each under its own name. Start with the
// output of `drover plugin new -kind driver NAME`: a module with a complete driver.
// One line in its test checks every rule of this contract: see package drivertest, and
// package drivercheck for the rules by name.
//
// # Optional abilities
//
// Driver is what every driver must have. What only some can do is a small interface of
// its own, such as Lister: implement it, and Service announces it to the host, which then
// makes its calls. The features, beginning with FeatureListTasks, list them all. A driver
// that implements plugin.HostAware learns which host runs it and on which features that
// host acts.
//
// # The life of the process
//
// The process is not part of any task. While tasks run, the agent may end it, kill it
// or replace it with a newer version, and the agent itself may be killed and
// restarted. Therefore:
//
//   - Tasks must survive the process: start them in sessions of their own and send
//     their output somewhere that needs no reader in this process.
//   - A Handle holds everything that a new process needs to find a task again. It is
//     created once, by StartTask, and never changes. Increase Handle.Version when the
//     format of State changes, and keep reading the older formats.
//   - A process starts without tasks. The host calls Info, SetConfig, then
//     RecoverTask for each task that it knows, and only then makes other calls.
//   - An exit code must not be lost while no process of the driver runs. If the
//     driver cannot determine it, it says so in ExitResult.Err instead of guessing.
//   - Write only log lines to stderr: use plugin.Logger. Writes to stderr may fail
//     when the agent is gone and must not end the process; Serve handles SIGPIPE.
//
// The host calls Info every few seconds and kills a process that does not answer
// several times in a row, so a driver must never block the whole process. The process
// gets only a few environment variables and no files of the agent.
//
// # Calls
//
//   - Every call has a ctx. When it ends, return soon with its error. Only StopTask
//     and StartTask have work to finish after that: see their comments.
//   - Calls for different tasks are concurrent. Calls for one task can be concurrent
//     too, for example WaitTask with any other call.
//   - RecoverTask, StopTask, DestroyTask and WaitTask may be repeated, since the
//     caller may have missed the first answer. StartTask is not repeated with the same
//     ID unless DestroyTask was called in between.
//   - Report a task as gone only when that is certain. After NotFound from
//     RecoverTask the task is treated as lost and replaced; after Unavailable the
//     agent asks again.
//
// # Errors
//
// Return errors with a class of sdk/errdefs and a text that names the cause and the
// remedy, since users read it in the events of their task:
//
//	return errdefs.InvalidArgumentf("command %q is not in PATH or in the task's directory; correct config.command", name)
//
// The class, the text and the retryable mark are transmitted. An error without a class
// is Internal. A reason code (errdefs.WithReason) and details (errdefs.WithDetail) of a
// failed StartTask appear in the event of the task, for programs that watch it. A retry
// hint (errdefs.WithRetryAfter), such as the time that a registry asked for, delays the
// next try: never below the restart policy's delay, and by 10 minutes at most.
//
// # Streams
//
// Fingerprint, TaskStats and TaskEvents return channels that the driver closes when
// ctx ends, and only then. A driver that cannot offer a stream returns an error of
// class Unimplemented instead of a channel.
//
// # Config
//
// Info publishes two schemas (sdk/schema). The CLI, the servers and the agent validate
// job files and agent files against them before the driver is called, and fill in
// defaults, so a driver only has to check what a schema cannot express. DriverConfig
// and the config of SetConfig are JSON objects with exactly the names of the schema.
//
// # Other languages
//
// sdk/proto has the source of the wire form. The handshake is go-plugin's, with the
// cookie and protocol version of sdk/plugin, and gRPC without TLS over a unix socket
// in the directory that PLUGIN_UNIX_SOCKET_DIR names. See
// docs/plugins/other-languages.md, and examples/plugins/python for a complete driver.
package driver
