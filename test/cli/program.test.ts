import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import test from "ava";
import type { Command } from "commander";
import { buildProgram } from "../../cli/buildProgram.ts";
import { createConnections } from "../../cli/connections.ts";
import { formatTable } from "../../cli/output/formatTable.ts";
import { parseConfig } from "../../config/config.ts";
import { systemClock } from "../../domain/clock.ts";
import { createEmptyDatabase } from "../support/database.ts";
import { runImpact } from "./runImpact.ts";

const program = buildProgram({
  io: { stdin: process.stdin, stdout: process.stdout, stderr: process.stderr },
  connections: createConnections(() => parseConfig({})),
  clock: systemClock,
});

/** The words of every command, groups included. */
const commandLines = (command: Command, before: readonly string[] = []): readonly string[][] =>
  command.commands.flatMap((inner) => {
    const line = [...before, inner.name()];
    return [line, ...commandLines(inner, line)];
  });

for (const line of commandLines(program)) {
  test(`impact ${line.join(" ")} --help needs nothing to run`, async (t) => {
    const { exitCode, stdout, stderr } = await runImpact([...line, "--help"]);
    t.is(exitCode, 0);
    t.true(stdout.startsWith(`Usage: impact ${line.join(" ")}`));
    t.is(stderr, "");
  });
}

test("the help tells the exit codes", async (t) => {
  const { stdout } = await runImpact(["--help"]);
  t.regex(stdout, /Exit codes:\n {2}0 {2}done/u);
});

const refusesUsage = test.macro({
  exec: async (t, args: readonly string[], message: RegExp) => {
    const { exitCode, stdout, stderr } = await runImpact(args);
    t.is(exitCode, 2);
    t.is(stdout, "");
    t.regex(stderr, message);
  },
  title: (_given, args: readonly string[]) => `impact ${args.join(" ")} is a usage error`,
});

const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

test(refusesUsage, ["frob"], /unknown command 'frob'/u);
test(refusesUsage, ["org"], /Usage: impact org/u);
test(refusesUsage, ["org", "shw"], /Did you mean show/u);
test(refusesUsage, ["org", "create"], /required option '--name <name>'/u);
test(refusesUsage, ["org", "create", "--name", "  "], /1 to 200 characters/u);
test(refusesUsage, ["org", "create", "--name", "x".repeat(201)], /1 to 200 characters/u);
test(refusesUsage, ["org", "create", "--name", "x", "--billing-day", "32"], /day of the month/u);
test(refusesUsage, ["org", "create", "--name", "x", "--billing-day", "1.5"], /day of the month/u);
test(refusesUsage, ["org", "create", "--name", "x", "--stripe-customer", "x"], /cus_/u);
test(
  refusesUsage,
  ["org", "create", "--name", "x", "--stripe-subscription", "sub_1"],
  /requires --stripe-customer/u,
);
test(refusesUsage, ["org", "show", "12"], /It must be an id/u);
test(refusesUsage, ["org", "update", ID], /Nothing to change/u);
test(refusesUsage, ["org", "update", ID, "--fractional", "yes"], /on or off/u);
test(refusesUsage, ["key", "issue", "--org", ID], /--mode/u);
test(refusesUsage, ["key", "issue", "--org", ID, "--mode", "prod"], /live or test/u);
test(refusesUsage, ["usage", "list", "--state", "lost"], /pending, sent, failed/u);
test(refusesUsage, ["usage", "list", "--limit", "0"], /1 to 100000/u);
test(refusesUsage, ["usage", "retry"], /Say what to retry/u);
test(refusesUsage, ["usage", "retry", "1", "--all"], /Say what to retry/u);
test(refusesUsage, ["usage", "retry", "--all", "--assume", "absent"], /name their ids/u);
test(refusesUsage, ["usage", "retry", "one"], /meter event or of a registration/u);
test(refusesUsage, ["usage", "reconcile", "--from", "yesterday"], /a date/u);
test(
  refusesUsage,
  ["usage", "reconcile", "--from", "2025-06-02", "--to", "2025-06-01"],
  /Nothing/u,
);
test(refusesUsage, ["workflow", "list", "--status", "asleep"], /Allowed choices/u);
test(refusesUsage, ["workflow", "terminate", "x"], /--reason/u);
test(refusesUsage, ["workflow", "terminate", "x", "--reason", " "], /Give the reason/u);
test(refusesUsage, ["import", "registrations", "/nonexistent", "--org", ID], /cannot be read/u);
test(refusesUsage, ["import", "registrations", "/", "--org", ID], /is a folder/u);
test(refusesUsage, ["try", "plant", "--key", "k", "--count", "0"], /whole number/u);
test(refusesUsage, ["try", "plant", "--key", "k", "--url", "ftp://x"], /http/u);

test("where nothing runs every command that needs something says so", async (t) => {
  for (const args of [
    ["org", "list"],
    ["workflow", "list"],
    ["migrate"],
    ["try", "plant", "--key", "k"],
  ]) {
    const { exitCode, stdout, stderr } = await runImpact(args);
    t.is(exitCode, 4);
    t.is(stdout, "");
    t.regex(stderr, /npm start/u);
  }
});

test("a database that is not there is told in a sentence without its password", async (t) => {
  const { exitCode, stderr } = await runImpact(["org", "list"], {
    env: { DATABASE_URL: "postgres://impact:hunter2@127.0.0.1:1/impact" },
  });
  t.is(exitCode, 4);
  t.regex(stderr, /127\.0\.0\.1:1\/impact cannot be used: .*ECONNREFUSED/u);
  t.false(stderr.includes("hunter2"));
  t.false(stderr.includes("    at "));
});

test("Temporal that is not there is told in a sentence", async (t) => {
  const { exitCode, stderr } = await runImpact(["workflow", "list"], {
    env: { TEMPORAL_ADDRESS: "127.0.0.1:1" },
  });
  t.is(exitCode, 4);
  t.regex(stderr, /Temporal does not answer/u);
});

test("a malformed setting is a usage error that names it", async (t) => {
  const { exitCode, stderr } = await runImpact(["org", "list"], { env: { PORT: "http" } });
  t.is(exitCode, 2);
  t.regex(stderr, /PORT must be a port number/u);
});

test("an empty database is refused until it is migrated, which may be done twice", async (t) => {
  const env = { DATABASE_URL: await createEmptyDatabase(t) };
  const refused = await runImpact(["org", "list"], { env });
  t.is(refused.exitCode, 1);
  t.regex(refused.stderr, /impact -- migrate/u);
  const first = await runImpact(["migrate"], { env });
  t.is(first.exitCode, 0);
  t.regex(first.stdout, /^0001_accounts\n/u);
  const second = await runImpact(["migrate", "--json"], { env });
  t.deepEqual(JSON.parse(second.stdout), { applied: [] });
  t.is((await runImpact(["org", "list"], { env })).exitCode, 0);
});

test("a table keeps its columns with wide characters and lets nobody steer the terminal", (t) => {
  t.is(
    formatTable(
      ["name", "units"],
      [
        ["森林", 1000],
        ["\u001B[2Jowned\n\u202E", 7],
        [null, 12],
      ],
    ),
    [
      "NAME                         UNITS",
      "森林                         1,000",
      "\\u{1b}[2Jowned\\u{a}\\u{202e}      7",
      "-                               12",
      "",
    ].join("\n"),
  );
});

const LAUNCHER = fileURLToPath(new URL("../../cli/impact.js", import.meta.url));

test("the installed program starts, and its exit code reaches the shell", async (t) => {
  const run = promisify(execFile);
  const { stdout } = await run(process.execPath, [LAUNCHER, "--version"]);
  t.regex(stdout, /^\d+\.\d+\.\d+\n$/u);
  await t.throwsAsync(run(process.execPath, [LAUNCHER, "frob"]), { code: 2 });
});

test("a reader that closes the pipe early gets no complaint", async (t) => {
  const child = execFile(process.execPath, [LAUNCHER, "--help"]);
  child.stdout?.destroy();
  const [complaints, exitCode] = await Promise.all([
    child.stderr?.setEncoding("utf8").toArray(),
    new Promise<number | null>((resolve) => {
      child.on("exit", resolve);
    }),
  ]);
  t.deepEqual(complaints, []);
  t.is(exitCode, 0);
});
