import { startServer } from "../../program/server/startServer.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { readJson, runImpact } from "./runImpact.ts";

const test = testWithDatabase();

test("try plant registers trees and prints the response without the key", async (t) => {
  const { url, call } = await startStandaloneApi(t, t.context);
  const { apiKeyTest: key } = await createTestOrganization(t.context.db);

  const run = await runImpact(["try", "plant", "--key", key, "--count", "4", "--url", `${url}/`]);

  t.is(run.exitCode, 0);
  t.deepEqual(readJson(run), (await call("GET", "/plant/trees", { key })).body);
  t.like(readJson(run), { total_planted_trees: 4 });
  t.false(`${run.stdout}${run.stderr}`.includes(key));
});

test("try plant warns that a production key is billed", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const { apiKeyProd, apiKeyTest } = await createTestOrganization(t.context.db);

  const live = await runImpact(["try", "plant", "--key", apiKeyProd, "--url", url]);
  const tried = await runImpact(["try", "plant", "--key", apiKeyTest, "--url", url]);

  t.regex(live.stderr, /production key/u);
  t.notRegex(tried.stderr, /production key/u);
});

test("try plant prints an error response and exits with 1", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);

  const run = await runImpact(["try", "plant", "--key", "wrong", "--url", url]);

  t.is(run.exitCode, 1);
  t.deepEqual(readJson(run), { error: "invalid API key" });
  t.regex(run.stderr, /403/u);
});

test("try plant prints the error page of a proxy and exits with 1", async (t) => {
  const page = "<h1>Bad gateway</h1>";
  const { url, close } = await startServer(
    (_request, response) => response.writeHead(502).end(page),
    { host: "127.0.0.1", port: 0, setting: "PORT" },
  );
  t.teardown(() => close(1000));

  const run = await runImpact(["try", "plant", "--key", "k", "--url", url]);

  t.is(run.exitCode, 1);
  t.is(run.stdout, `${page}\n`);
  t.regex(run.stderr, /502/u);
});

test("try plant exits with 4 if the API cannot be reached", async (t) => {
  const run = await runImpact(["try", "plant", "--key", "k", "--url", "http://127.0.0.1:2"]);

  t.is(run.exitCode, 4);
  t.regex(run.stderr, /No response from http:\/\/127\.0\.0\.1:2\/plant\/trees/u);
});
