import { execFile } from "node:child_process";
import { promisify } from "node:util";
import test from "ava";

const run = promisify(execFile);

test("npm run stripe-double -- --help prints how it is used, and an unknown option is an error without a stack", async (t) => {
  const { stdout } = await run(process.execPath, ["test/stripeDouble/main.ts", "--help"]);
  t.regex(stdout, /^Usage: npm run stripe-double -- \[options\]\n[^]*--port <port>/u);
  await t.throwsAsync(run(process.execPath, ["test/stripeDouble/main.ts", "--prot", "1"]), {
    message: /error: unknown option '--prot'\n\(Did you mean --port\?\)\n$/u,
  });
});
