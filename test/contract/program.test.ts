import { execFile } from "node:child_process";
import { createServer } from "node:http";
import { fileURLToPath } from "node:url";
import test from "ava";
import type { ExecutionContext } from "ava";
import { listen } from "../support/server.ts";

const MAIN = fileURLToPath(new URL("main.ts", import.meta.url));

type Run = { readonly exitCode: number; readonly stdout: string; readonly stderr: string };

const runContract = (args: readonly string[], keys: Readonly<Record<string, string>> = {}) =>
  new Promise<Run>((resolve) => {
    const child = execFile(process.execPath, [MAIN, ...args], { env: keys }, (_, stdout, stderr) =>
      resolve({ exitCode: child.exitCode ?? -1, stdout, stderr }),
    );
  });

/** Serves one response to every request, as a server that does not follow the contract. */
const startOtherServer = async (t: ExecutionContext, status: number, body: unknown) => {
  const server = createServer((_request, response) => {
    response.writeHead(status, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body));
  });
  return `http://127.0.0.1:${await listen(t, server)}`;
};

test("it prints what differs with the expected and the actual response, and exits with 1", async (t) => {
  const url = await startOtherServer(t, 200, { error: "invalid API key" });

  const only = ["--only", "GET /evidence: a missing key"];
  const { exitCode, stdout } = await runContract(["--standalone", `${url}/`, ...only]);

  t.is(exitCode, 1);
  t.is(
    stdout,
    [
      "differs  GET /evidence: a missing key is a 403 with the message invalid API key: " +
        'GET /evidence: expected 403, got 200 {"error":"invalid API key"}',
      "",
      "0 ok, 1 differ, 0 skipped",
      "",
    ].join("\n"),
  );
});

test("checks that pass or lack a key are no difference, and it exits with 0", async (t) => {
  const url = await startOtherServer(t, 403, { error: "invalid API key" });

  const args = ["--standalone", url, "--only", "GET /evidence: a"];
  const { exitCode, stdout } = await runContract(args, { STORE_TEST_KEY: "TEST-key" });

  t.is(exitCode, 0);
  t.regex(stdout, /^ok {7}GET \/evidence: a missing key is a 403/mu);
  t.regex(stdout, /^ok {7}GET \/evidence: a key of the store interface is a 403$/mu);
  t.regex(stdout, /^skipped {2}GET \/evidence: a key with .*: needs IMPACT_TEST_KEY$/mu);
  t.regex(stdout, /^2 ok, 0 differ, 2 skipped$/mu);
});

for (const [title, args] of [
  ["no address", []],
  ["an unknown option", ["--unknown"]],
  ["a text that no check contains", ["--store", "http://127.0.0.1:1", "--only", "nothing like it"]],
] as const) {
  test(`${title} is a usage error, and it exits with 2`, async (t) => {
    const { exitCode, stderr } = await runContract(args);
    t.is(exitCode, 2);
    t.regex(stderr, /See --help\.$/mu);
  });
}
