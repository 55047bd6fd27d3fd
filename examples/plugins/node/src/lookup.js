// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// The collector "lookup" measures how long this machine takes to look names up: a histogram
// of the times, and a counter of the failures, for each name in its config.
"use strict";

const dns = require("node:dns").promises;
const grpc = require("@grpc/grpc-js");

const NAME = "lookup";

// BOUNDS are the upper limits of the histogram's buckets, in seconds.
const BOUNDS = [0.001, 0.01, 0.1, 1];

const SCHEMA = {
  attributes: [{ name: "names", type: "list(string)", default: ["localhost"], description: "the names to look up" }],
};

const INFO = {
  name: NAME,
  config_schema: Buffer.from(JSON.stringify(SCHEMA)),
  series: [
    {
      name: "lookup.time",
      unit: "seconds",
      kind: "KIND_HISTOGRAM",
      bounds: BOUNDS,
      labels: ["name"],
      description: "how long it took to look the name up",
    },
    { name: "lookup.failures", kind: "KIND_COUNTER", labels: ["name"], description: "how often the name was not found" },
  ],
};

// invalid is an error that says what to change.
function invalid(details) {
  return { code: grpc.status.INVALID_ARGUMENT, details };
}

class Lookup {
  constructor() {
    this.names = [];
    this.seen = new Map(); // name -> { counts, sum, failures }, since this process began
  }

  handlers() {
    return {
      Collectors: (_, answer) => answer(null, { collectors: [INFO] }),
      SetConfig: (call, answer) => answer(this.configure(call.request), {}),
      Collect: (call) => this.collect(call),
    };
  }

  // refused returns why a request cannot be served; null means that it can.
  refused(request) {
    if (request.collector !== NAME) {
      return { code: grpc.status.NOT_FOUND, details: `this process has no collector "${request.collector}"; it has ${NAME}` };
    }
    return null;
  }

  configure(request) {
    const no = this.refused(request);
    if (no) return no;
    const { names } = JSON.parse(request.config.toString() || "{}");
    const bad = names.find((n) => n.trim() === "");
    if (bad !== undefined) return invalid(`names: "${bad}" is not a name of a machine`);
    this.names = [...new Set(names)]; // open streams go on with it
    return null;
  }

  // collect sends a sample at once and then one per interval, until the host ends the
  // stream. While the host does not read, nothing is measured.
  async collect(call) {
    const { interval } = call.request;
    const pause = interval ? interval.seconds * 1000 + interval.nanos / 1e6 : 0;
    const no = this.refused(call.request) || (pause > 0 ? null : invalid(`an interval of ${pause} ms cannot be kept; it must be above zero`));
    if (no) {
      call.emit("error", no);
      return;
    }
    const open = new grpc.Metadata();
    open.set("drover-stream", "open"); // the host tells by it that the call is accepted
    call.sendMetadata(open);

    let timer, wake;
    const ended = new Promise((end) => {
      call.on("cancelled", end);
      call.on("close", end);
    });
    let over = false;
    ended.then(() => {
      over = true;
      clearTimeout(timer);
      wake?.();
    });
    while (!over) {
      const due = Date.now() + pause;
      const sample = await this.measure();
      if (over) break;
      if (!call.write(sample)) {
        await Promise.race([new Promise((drained) => call.once("drain", drained)), ended]);
      }
      await new Promise((next) => {
        wake = next;
        // setTimeout cannot wait longer than 2^31 ms
        if (!over) timer = setTimeout(next, Math.min(Math.max(due - Date.now(), 0), 2 ** 31 - 1));
        else next();
      });
    }
    call.end();
  }

  // measure looks all names up at the same time and returns all counts.
  async measure() {
    const names = this.names;
    await Promise.all(names.map((n) => this.look(n)));
    const now = Date.now();
    const sample = {
      time: { seconds: Math.floor(now / 1000), nanos: (now % 1000) * 1e6 },
      values: [],
      problems: [],
    };
    if (names.length === 0) {
      for (const s of INFO.series) sample.problems.push(`${s.name}: names in the config is empty`);
    }
    for (const name of names) {
      const { counts, sum, failures } = this.seen.get(name);
      const labels = { name };
      // value has the number of observations, for hosts that do not know histograms.
      const count = counts.reduce((a, b) => a + b, 0);
      sample.values.push({ series: "lookup.time", labels, value: count, histogram: { counts: [...counts], sum } });
      sample.values.push({ series: "lookup.failures", labels, value: failures });
    }
    return sample;
  }

  async look(name) {
    let of = this.seen.get(name);
    if (!of) {
      of = { counts: new Array(BOUNDS.length + 1).fill(0), sum: 0, failures: 0 };
      this.seen.set(name, of);
    }
    const began = process.hrtime.bigint();
    try {
      await dns.lookup(name);
    } catch {
      of.failures++;
    }
    const took = Number(process.hrtime.bigint() - began) / 1e9;
    const bucket = BOUNDS.findIndex((limit) => took <= limit);
    of.counts[bucket < 0 ? BOUNDS.length : bucket]++;
    of.sum += took;
  }
}

exports.Lookup = Lookup;
