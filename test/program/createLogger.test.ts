import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import test from "ava";
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
