import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { open, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually } from "../support/programs.ts";

const PROGRAM = fileURLToPath(new URL("writeLines.ts", import.meta.url));
const numbered = z.object({ number: z.int().optional() });

const countLines = (text: string): number => text.split("\n").length - 1;

const numbersIn = (output: string): readonly number[] =>
  output
    .trimEnd()
    .split("\n")
    .flatMap((line) => numbered.parse(JSON.parse(line)).number ?? []);

const firstNumbers = (count: number): readonly number[] =>
  Array.from({ length: count }, (_, index) => index);

const run = (command: string, ...args: readonly string[]): Promise<string> =>
  new Promise((resolve) => {
    execFile(command, args, (_error, stdout) => resolve(stdout));
  });

for (const end of ["exit", "error", "fatal", "return"]) {
  test(`every line is written once, in order, if the process ends by ${end}`, async (t) => {
    const output = await run(process.execPath, PROGRAM, end);
    t.deepEqual(numbersIn(output), firstNumbers(end === "fatal" ? 300 : 1000));
  });
}

test("every line is written once, in order, into a pipe of a shell", async (t) => {
  const output = await run("sh", "-c", `"$0" "$1" exit | cat`, process.execPath, PROGRAM);
  t.deepEqual(numbersIn(output), firstNumbers(1000));
});

test("a readable line of a request has what a person looks at, and any other its message", async (t) => {
  const script = `
    const { createLogger } = await import("${import.meta.resolve("../../runtime/createLogger.ts")}");
    const log = createLogger({ LOG_LEVEL: "info", LOG_FORMAT: "pretty" }, "api");
    log.info({ method: "GET", route: "/x", status: 200, durationMs: 3, clientAddress: "y" }, "request");
    log.info({ nested: { msg: "request" } }, "other");`;
  const output = await run(process.execPath, "--input-type=module", "--eval", script);
  t.regex(output, / INFO: GET \/x 200 3 ms\n.* INFO: other \{.*\}\n$/u);
});

test("none of 30 MB is lost if a file can be written", async (t) => {
  const folder = await makeTestFolder(t);
  const path = join(folder, "log");
  const file = await open(path, "w");
  t.teardown(() => file.close());

  await once(
    spawn(process.execPath, [PROGRAM, "turns"], { stdio: ["ignore", file.fd, "inherit"] }),
    "exit",
  );

  t.is(countLines(await readFile(path, "utf8")), 30_000);
});

/** Starts a process that logs lines of about a kilobyte when it is asked to. */
const startProcess = (t: ExecutionContext, stdout: number | "pipe") => {
  const child: ChildProcess = spawn(process.execPath, [PROGRAM, "disconnect"], {
    stdio: ["ignore", stdout, "pipe", "ipc"],
  });
  t.teardown(() => child.kill("SIGKILL"));
  const exited = once(child, "exit");
  const ended = exited.then(() => Promise.reject(new Error("The process has ended.")));
  ended.catch(() => undefined);
  const log = async (count: number): Promise<void> => {
    child.send(count);
    await Promise.race([once(child, "message"), ended]);
  };
  return { child, exited, log };
};

test("a process whose log cannot be written goes on, and can end", async (t) => {
  const full = await open("/dev/full", "w");
  t.teardown(() => full.close());
  const { child, exited, log } = startProcess(t, full.fd);
  for (let round = 0; round < 10; round += 1) {
    await log(100);
  }

  child.disconnect();

  t.is((await exited)[0], 0);
});

test("lines that a slow reader has left are written although no other follows", async (t) => {
  const { child, log } = startProcess(t, "pipe");
  await log(1000);
  // Longer than the lines wait for others.
  await delay(300);
  const stdout = child.stdout?.setEncoding("utf8") ?? t.fail();
  let output = "";
  stdout.on("data", (text: string) => (output += text));
  await eventually(() => countLines(output) === 1000);
  t.deepEqual(numbersIn(output), firstNumbers(1000));
});

/** Lines of 1 kB: more than the 16 MiB that are held. */
const TOTAL = 22_000;
/** The pipe holds a part, too. */
const MAXIMUM_LENGTH = 18 * 1024 * 1024;

const logUnread = async (t: ExecutionContext) => {
  const process = startProcess(t, "pipe");
  for (let sent = 0; sent < TOTAL; sent += 1000) {
    await process.log(1000);
  }
  return { ...process, stdout: process.child.stdout?.setEncoding("utf8") ?? t.fail() };
};

test("lines that are not read are held up to a limit, and later ones are written again once they are read", async (t) => {
  const { log, stdout } = await logUnread(t);
  let output = "";
  stdout.on("data", (text: string) => (output += text));
  await eventually(async () => {
    await log(1);
    // The first ones are lost, too.
    return /"number":22\d{3}/u.test(output.slice(-2000));
  });

  const numbers = numbersIn(output.slice(0, output.lastIndexOf("\n")));
  const sorted = numbers.toSorted((first, second) => first - second);
  t.deepEqual(numbers, sorted);
  t.true(output.length < MAXIMUM_LENGTH, `${output.length} characters`);
  t.true(numbers.length < TOTAL);
});

test("an exit gives up lines that are not read", async (t) => {
  const { child, exited, stdout } = await logUnread(t);
  let output = "";
  child.once("exit", () => stdout.on("data", (text: string) => (output += text)));
  const ended = once(stdout, "end");

  child.disconnect();

  t.is((await exited)[0], 0);
  await ended;
  t.true(countLines(output) < TOTAL);
});
