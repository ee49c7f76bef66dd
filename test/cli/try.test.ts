import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import test from "ava";
import type { ExecutionContext } from "ava";
import { runImpact } from "./runImpact.ts";

type Request = {
  readonly line: string;
  readonly key: string | undefined;
  readonly body: string;
};

/** Something that answers as the API would and remembers what it was asked. */
const serve = async (
  t: ExecutionContext,
  status: number,
  answer: string,
): Promise<{ readonly url: string; readonly requests: readonly Request[] }> => {
  const requests: Request[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      requests.push({
        line: `${request.method ?? ""} ${request.url ?? ""}`,
        key: request.headers.authorization,
        body: Buffer.concat(chunks).toString(),
      });
      response.writeHead(status, { "content-type": "application/json" }).end(answer);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  t.teardown(() => server.close());
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, requests };
};

test("try plant sends what a client sends and prints the answer", async (t) => {
  const { url, requests } = await serve(t, 200, '{"total_planted_trees":4}');
  const run = await runImpact([
    "try",
    "plant",
    "--key",
    "impact_test_abc",
    "--count",
    "4",
    "--url",
    `${url}/`,
  ]);
  t.is(run.exitCode, 0);
  t.deepEqual(requests, [
    { line: "POST /plant/trees", key: "impact_test_abc", body: '{"count":4}' },
  ]);
  t.deepEqual(JSON.parse(run.stdout), { total_planted_trees: 4 });
  t.false(`${run.stdout}${run.stderr}`.includes("impact_test_abc"));
});

test("try plant warns of a production key", async (t) => {
  const { url } = await serve(t, 200, "{}");
  const run = await runImpact(["try", "plant", "--key", "impact_prod_abc", "--url", url]);
  t.regex(run.stderr, /production key/u);
});

test("try plant prints a refusal and ends with 1, whatever form it has", async (t) => {
  for (const answer of ['{"error":"invalid API key"}', "<h1>Bad gateway</h1>"]) {
    const { url } = await serve(t, 403, answer);
    const run = await runImpact(["try", "plant", "--key", "k", "--url", url]);
    t.is(run.exitCode, 1);
    t.is(run.stdout.replaceAll(/\s/gu, ""), answer.replaceAll(/\s/gu, ""));
    t.regex(run.stderr, /403/u);
  }
});

test("try plant ends with 4 where nothing listens", async (t) => {
  const run = await runImpact(["try", "plant", "--key", "k", "--url", "http://127.0.0.1:2"]);
  t.is(run.exitCode, 4);
  t.regex(run.stderr, /No answer from http:\/\/127\.0\.0\.1:2\/plant\/trees/u);
});
