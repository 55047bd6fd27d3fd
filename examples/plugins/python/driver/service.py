# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""The driver: the service drover.driver.v1.Driver. Its methods are documented in
`go doc github.com/drover-project/drover/sdk/driver/v1 Driver`."""

import asyncio
import hashlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time

import grpc

from driver import runner
from driver.v1 import driver_pb2 as pb
from driver.v1 import driver_pb2_grpc

NAME = "python"
HANDLE_VERSION = 1
# The initial metadata of every stream, sent when the driver has accepted the call.
OPEN = (("drover-stream", "open"),)

CONFIG_SCHEMA = {"attributes": [
    {"name": "greeting", "type": "string", "default": "hello", "description": "shown in the health description"},
]}
TASK_SCHEMA = {"attributes": [
    {"name": "command", "type": "string", "required": True, "description": "the program to run"},
    {"name": "args", "type": "list(string)", "description": "its arguments"},
]}


def check(asked):
    """What is wrong with a config that a schema cannot express. Used before a job is
    registered and by the start, so that both decide the same."""
    found = []
    if not asked.get("command", "").strip():
        found.append(pb.Diagnostic(path="config.command", severity="error", summary="is empty", cure="name the program to run"))
    return found


def decode(config):
    """A config block as the agent has checked it against the schema."""
    asked = json.loads(config)
    if not isinstance(asked, dict):
        raise ValueError("it is no object")
    known = {a["name"] for a in TASK_SCHEMA["attributes"]}
    if not set(asked) <= known:
        raise ValueError(f"unknown attributes {sorted(set(asked) - known)}")
    return asked


def folder_of(alloc_dir, task_id):
    """The directory of a task. The agent chooses the id, which may contain any character."""
    return os.path.join(alloc_dir, f".{NAME}-" + hashlib.sha256(task_id.encode()).hexdigest()[:16])


class Task:
    """A task of this process. done is set when it has ended."""

    def __init__(self, folder, pid, started):
        self.folder, self.pid, self.started = folder, pid, started
        self.done, self.exit, self.exited = asyncio.Event(), None, None
        # The read end of the runner's FIFO: EOF means that the task has ended.
        self.alive = os.open(os.path.join(folder, "alive"), os.O_RDONLY | os.O_NONBLOCK)
        asyncio.get_running_loop().add_reader(self.alive, self._ended)
        self._ended()  # if the runner was gone before the open, there is no EOF event

    def _ended(self):
        try:
            os.read(self.alive, 1)  # nobody writes to it, so this is EOF
        except BlockingIOError:
            return
        asyncio.get_running_loop().remove_reader(self.alive)
        os.close(self.alive)
        try:
            with open(os.path.join(self.folder, "result.json")) as f:
                r = json.load(f)
            self.exit = pb.ExitResult(exit_code=r["exit_code"], signal=r["signal"])
            self.exited = r["exited_at"]
        except (OSError, ValueError):
            self.kill()  # its output is not read any more
            self.exit = pb.ExitResult(exit_code=-1, err="exit code unknown: the task's runner was killed")
            self.exited = time.time()
        self.done.set()

    def kill(self):
        """Kills the task's process and its children."""
        if not self.pid:
            return  # it was never started
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class Driver(driver_pb2_grpc.DriverServicer):
    def __init__(self):
        self.tasks = {}  # by id
        self.starting = {}  # starts in progress, by id
        self.greeting = ""

    async def Drivers(self, request, context):
        can = pb.Capabilities(send_signals=True, exec=True, fs_isolation="none", network_modes=["host"],
                              ignores=["user"], host_cgroup="limited")  # the host enforces the task's resources: see runner.py
        info = pb.Info(name=NAME, capabilities=can, features=["validate_task"], config_schema=json.dumps(CONFIG_SCHEMA).encode(),
                       task_config_schema=json.dumps(TASK_SCHEMA).encode())
        return pb.DriversResponse(drivers=[info])

    async def SetConfig(self, request, context):
        self.greeting = json.loads(request.config or b"{}").get("greeting", "")
        return pb.SetConfigResponse()

    async def Fingerprint(self, request, context):
        await context.send_initial_metadata(OPEN)
        version = "%d.%d.%d" % sys.version_info[:3]
        yield pb.FingerprintResponse(health="healthy", health_description=f"{self.greeting} from Python {version}",
                                     attributes={f"driver.{NAME}": "1", f"driver.{NAME}.python": version})
        await asyncio.Event().wait()  # until the host ends the call

    async def StartTask(self, request, context):
        config = request.task
        asked = await self.config(config, context)
        folder = folder_of(config.alloc_dir, config.id)
        if config.id in self.tasks or config.id in self.starting or os.path.exists(folder):
            await context.abort(grpc.StatusCode.ALREADY_EXISTS, f"task {config.id!r} is known already; destroy it first")
        self.starting[config.id] = asyncio.ensure_future(self.launch(folder, config, asked, context))
        try:
            task = await self.starting[config.id]
        except BaseException:  # including cancellation: a failed start leaves nothing behind
            await self.end_interrupted(folder)
            raise
        finally:
            del self.starting[config.id]
        self.tasks[config.id] = task
        state = json.dumps({"folder": folder, "pid": task.pid, "started": task.started}).encode()
        return pb.StartTaskResponse(handle=pb.Handle(task_id=config.id, version=HANDLE_VERSION, state=state))

    async def ValidateTask(self, request, context):
        """The config may lack what only a start knows."""
        try:
            return pb.ValidateTaskResponse(diagnostics=check(decode(request.driver_config)))
        except (ValueError, TypeError, AttributeError) as e:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the config cannot be used: {e}")

    async def config(self, config, context):
        """Decodes the task's config block. If it is invalid, it is rejected and not retried."""
        try:
            asked = decode(config.driver_config)
            for f in check(asked):
                raise ValueError(f"{f.path} {f.summary}; {f.cure}")
            command = [asked["command"], *asked.get("args", [])]
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the config cannot be used: {e}")
        found = shutil.which(command[0], path=config.env.get("PATH", ""))
        if not found:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"command {command[0]!r} is not in PATH; correct config.command")
        return [found, *command[1:]]

    async def launch(self, folder, config, command, context):
        os.mkdir(folder, 0o700)
        os.mkfifo(os.path.join(folder, "alive"), 0o600)
        spec = {"command": command, "env": dict(config.env), "dir": config.task_dir, "discard": config.logs.disabled,
                "stdout": config.logs.stdout_path, "stderr": config.logs.stderr_path,
                "max_files": config.logs.max_files, "max_mb": config.logs.max_file_size_mb,
                "cgroup": sorted(set(config.cgroup.dirs.values()))}  # none where the machine cannot have one
        # The runner renames this file to spec.json before it starts the task. Its name is
        # never used again, so if the file is removed first, no runner starts anything.
        orders = os.path.join(folder, "start-" + secrets.token_hex(16))
        with open(orders, "w", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            json.dump(spec, f)
        child = await asyncio.create_subprocess_exec(
            sys.executable, sys.argv[0], runner.COMMAND, orders, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, start_new_session=True)
        said = json.loads(await child.stdout.readline() or b'{"error": "the runner ended before it had started the task"}')
        if "error" in said:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"start the command: {said['error']}")
        return Task(folder, said["pid"], said["at"])

    async def end_interrupted(self, folder):
        """Ends a task whose start was cancelled, or interrupted when an earlier process of
        this driver was killed. When it returns, nothing runs and nothing will."""
        if not os.path.isdir(folder):
            return
        for name in os.listdir(folder):
            if name.startswith("start-"):
                try:
                    os.unlink(os.path.join(folder, name))
                except FileNotFoundError:
                    pass  # the runner was faster: then spec.json exists
        if os.path.exists(os.path.join(folder, "spec.json")):
            await self.end(await self.when_started(folder), 0)
        shutil.rmtree(folder, ignore_errors=True)

    async def when_started(self, folder):
        """Waits until the runner has started the task or has ended."""
        task = Task(folder, 0, 0)
        while not task.pid:
            ended = task.done.is_set()
            try:
                with open(os.path.join(folder, "task.json")) as f:
                    record = json.load(f)
                task.pid, task.started = record["pid"], record["at"]
            except FileNotFoundError:
                if ended:
                    break  # it started no task
                await asyncio.sleep(0.005)
        return task

    async def RecoverTask(self, request, context):
        handle = request.handle
        if self.tasks.get(handle.task_id):
            return pb.RecoverTaskResponse()
        try:
            if handle.version != HANDLE_VERSION:
                raise ValueError(f"version {handle.version}, want {HANDLE_VERSION}")
            state = json.loads(handle.state)
            task = Task(state["folder"], state["pid"], state["started"])
        except FileNotFoundError as e:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"the task left no trace: {e}")
        except (ValueError, KeyError, TypeError) as e:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"the handle cannot be read: {e}")
        self.tasks[handle.task_id] = task
        return pb.RecoverTaskResponse()

    async def find(self, task_id, context):
        task = self.tasks.get(task_id)
        if task is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"task {task_id!r} is unknown; start or recover it first")
        return task

    async def WaitTask(self, request, context):
        task = await self.find(request.task_id, context)
        await task.done.wait()
        return pb.WaitTaskResponse(result=task.exit)

    async def signal(self, task, name, context):
        number = signal.Signals.__members__.get(name)
        if number is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"unknown signal {name!r}")
        if task.done.is_set():
            return False
        try:
            os.kill(task.pid, number)
        except ProcessLookupError:
            return False
        return True

    async def SignalTask(self, request, context):
        task = await self.find(request.task_id, context)
        if not await self.signal(task, request.signal, context):
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the task has ended")
        return pb.SignalTaskResponse()

    async def StopTask(self, request, context):
        task = await self.find(request.task_id, context)
        await self.signal(task, request.signal or "SIGTERM", context)
        # shield: the kill happens even if the call ends before.
        await asyncio.shield(asyncio.ensure_future(self.end(task, request.timeout.ToTimedelta().total_seconds())))
        return pb.StopTaskResponse()

    async def end(self, task, timeout):
        try:
            await asyncio.wait_for(task.done.wait(), timeout)
        except asyncio.TimeoutError:
            pass
        task.kill()  # including the children it left behind
        await task.done.wait()

    async def DestroyTask(self, request, context):
        start = self.starting.get(request.task_id)
        if start is not None and request.force:
            start.cancel()
            await asyncio.wait([start])
        task = self.tasks.get(request.task_id)
        folder = folder_of(request.alloc_dir, request.task_id)
        if task is None and request.alloc_dir and os.path.isdir(folder):
            if not request.force and os.path.exists(os.path.join(folder, "spec.json")) and not (await self.when_started(folder)).done.is_set():
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the task still runs; stop it first or use force")
            await self.end_interrupted(folder)
        if task is None:
            return pb.DestroyTaskResponse()  # it does not exist any more
        if not task.done.is_set():
            if not request.force:
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the task still runs; stop it first or use force")
            await self.end(task, 0)
        shutil.rmtree(task.folder, ignore_errors=True)
        self.tasks.pop(request.task_id, None)
        return pb.DestroyTaskResponse()

    async def InspectTask(self, request, context):
        task = await self.find(request.task_id, context)
        status = pb.TaskStatus(id=request.task_id, state="running", attributes={"pid": str(task.pid)})
        status.started_at.FromNanoseconds(int(task.started * 1e9))
        if task.done.is_set():
            status.state = "exited"
            status.exit.CopyFrom(task.exit)
            status.exited_at.FromNanoseconds(int(task.exited * 1e9))
        return pb.InspectTaskResponse(status=status)

    async def TaskStats(self, request, context):
        interval = request.interval.ToTimedelta().total_seconds()
        if interval <= 0:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the interval must be more than zero")
        await context.send_initial_metadata(OPEN)
        while True:
            yield pb.TaskStatsResponse(stats=[self.sample(i, t) for i, t in self.tasks.items() if not t.done.is_set()])
            await asyncio.sleep(interval)

    def sample(self, task_id, task):
        out = pb.TaskStats(task_id=task_id)
        out.time.GetCurrentTime()
        try:
            with open(f"/proc/{task.pid}/statm") as f:
                out.total.memory.rss = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            out.total.memory.measured.append("RSS")
        except (OSError, IndexError):
            pass  # it has just ended
        return out

    async def TaskEvents(self, request, context):
        await context.send_initial_metadata(OPEN)
        await asyncio.Event().wait()  # this driver has no events
        yield  # makes this function a generator

    async def ExecTask(self, requests, context):
        start = (await requests.__anext__()).start
        task = await self.find(start.task_id, context)
        if task.done.is_set():
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the task does not run")
        if start.tty:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "this driver has no terminals")
        with open(os.path.join(task.folder, "spec.json")) as f:
            spec = json.load(f)
        try:
            command = await asyncio.create_subprocess_exec(
                *start.command, cwd=spec["dir"], env=spec["env"], start_new_session=True, stdin=asyncio.subprocess.PIPE,
                preexec_fn=runner.enter(spec["cgroup"]),
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        except (OSError, subprocess.SubprocessError) as e:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"run {start.command[0]!r}: {e}")
        answers = asyncio.Queue(maxsize=16)
        feed = asyncio.ensure_future(self.feed(requests, command))
        work = asyncio.ensure_future(self.output(command, answers))
        try:
            while True:
                answer = await answers.get()
                yield answer
                if answer.HasField("result"):
                    return
        finally:
            feed.cancel()
            work.cancel()
            if command.returncode is None:  # the call ended first
                os.killpg(command.pid, signal.SIGKILL)

    async def feed(self, requests, command):
        try:
            async for request in requests:
                if request.stdin_closed:
                    command.stdin.close()
                elif request.stdin:
                    command.stdin.write(request.stdin)
                    await command.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the command does not read any more

    async def output(self, command, answers):
        async def copy(stream, name):
            while data := await stream.read(65536):
                await answers.put(pb.ExecTaskResponse(**{name: data}))

        await asyncio.gather(copy(command.stdout, "stdout"), copy(command.stderr, "stderr"))
        code = await command.wait()
        result = pb.ExitResult(exit_code=code) if code >= 0 else pb.ExitResult(exit_code=128 - code, signal=-code)
        await answers.put(pb.ExecTaskResponse(result=result))
