import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";

const PROGRAM = fileURLToPath(new URL("writeLines.ts", import.meta.url));
const numbered = z.object({ number: z.int() });

for (const end of ["exit", "error", "flush", "return"]) {
  test(`every line is written once if the process ends by ${end}`, async (t) => {
    const output = await new Promise<string>((resolve) => {
      execFile(process.execPath, [PROGRAM, end], (_error, stdout) => resolve(stdout));
    });
    const numbers = output
      .trimEnd()
      .split("\n")
      .map((line) => numbered.parse(JSON.parse(line)).number);
    // What is written at the exit may overtake what was being written.
    t.deepEqual(
      numbers.toSorted((left, right) => left - right),
      Array.from({ length: 1000 }, (_, index) => index),
    );
  });
}

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

test("a process whose log cannot be written goes on, reports it once, and can end", async (t) => {
  const full = await open("/dev/full", "w");
  t.teardown(() => full.close());
  const { child, exited, log } = startProcess(t, full.fd);
  const errors: string[] = [];
  child.stderr?.setEncoding("utf8").on("data", (text: string) => errors.push(text));
  await log(100);
  await Promise.race([once(child.stderr ?? t.fail(), "data"), exited]);
  for (let round = 0; round < 10; round += 1) {
    await log(100);
  }

  child.disconnect();

  t.is((await exited)[0], 0);
  t.regex(errors.join(""), /^The log cannot be written: ENOSPC[^\n]*\n$/u);
});

test("lines that nobody reads are held up to a limit, and the number of the others is logged later", async (t) => {
  const { child, log } = startProcess(t, "pipe");
  const total = 40_000;
  for (let sent = 0; sent < total; sent += 1000) {
    await log(1000);
  }

  let bytes = 0;
  let read = 0;
  let lost = 0;
  for await (const line of createInterface({ input: child.stdout ?? t.fail() })) {
    bytes += line.length;
    const parsed = z.looseObject({ lines: z.int().optional() }).parse(JSON.parse(line));
    lost += parsed.lines ?? 0;
    read += parsed.lines === undefined ? 1 : 0;
    if (read + lost === total) {
      break;
    }
  }
  t.true(lost > 0);
  // The pipe holds a part, too.
  t.true(bytes < 18 * 1024 * 1024, `${bytes} bytes`);
});
