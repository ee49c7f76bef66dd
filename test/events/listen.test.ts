import { chmod } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import type { ExecutionContext } from "ava";
import { Webhook } from "standardwebhooks";
import { systemClock } from "../../runtime/clock.ts";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { runImpact } from "../cli/runImpact.ts";
import type { Run } from "../cli/runImpact.ts";
import { refunded } from "./readEvents.ts";
import { writeTestFile } from "../history/importScene.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { answer, startReceiver } from "./startReceiver.ts";
import type { Receiver } from "./startReceiver.ts";

const test = testWithDatabase();

const SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDGDBvZsTuNW4=";

/** Records events until the receiver has one: those from before the command listened are not sent. */
const recordUntilReceived = async (
  { context: { db } }: ExecutionContext<DatabaseContext>,
  accountId: string,
  receiver: Receiver,
): Promise<void> => {
  await eventually(async () => {
    await recordEvent(db, { accountId, mode: "test" }, systemClock.now(), refunded("new"));
    return receiver.received.length > 0;
  });
};

/** Writes a file that only its owner can read. */
const writeSecretFile = async (t: ExecutionContext, content: string): Promise<string> => {
  const path = await writeTestFile(t, "secret", `${content}\n`);
  await chmod(path, 0o600);
  return path;
};

const listenIn =
  ({ context: { databaseUrl } }: ExecutionContext<DatabaseContext>) =>
  (stdin: string, ...options: readonly string[]): Promise<Run> =>
    runImpact(["webhook", "listen", ...options], { env: { DATABASE_URL: databaseUrl }, stdin });

for (const source of ["standard input", "a file"]) {
  test(`webhook listen with a key on ${source} signs new events and forwards them to a local server`, async (t) => {
    const { db } = t.context;
    const { id, apiKeyTest } = await createTestOrganization(db);
    const receiver = await startReceiver(t);
    const { url } = await startStandaloneApi(t, { db });
    await recordEvent(db, { accountId: id, mode: "test" }, systemClock.now(), refunded("old"));
    const isInput = source === "standard input";
    const from = isInput ? [] : ["--key-file", await writeSecretFile(t, apiKeyTest)];
    const stdin = isInput ? `${apiKeyTest}\n` : "";
    const secretFile = await writeSecretFile(t, SECRET);
    const to = ["--url", url, "--forward-to", `${receiver.url}/`, "--limit", "1"];
    const listening = listenIn(t)(stdin, ...from, ...to, "--secret-file", secretFile);
    await recordUntilReceived(t, id, receiver);
    const run = await listening;
    t.is(run.exitCode, 0, run.stderr);
    t.regex(run.stdout, /registration\.refunded evt_[0-9a-f]{48}: 204\n/u);
    const [request] = receiver.received;
    t.is(request?.path, "/hook/", "the path as it was given");
    t.like(new Webhook(SECRET).verify(request?.body ?? "", request?.headers ?? {}), {
      type: "registration.refunded",
      data: { kind: "tree" },
    });
  });
}

test("webhook listen says what is missing, and passes on the API's error", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const listen = listenIn(t);
  const to = ["--forward-to", "http://127.0.0.1:9/"];
  t.like(await listen("", ...to), {
    exitCode: 2,
    stderr: "impact: Give the API key on standard input or in a file with --key-file.\n",
  });
  const run = await listen("impact_test_x", ...to, "--url", url);
  t.regex(run.stderr, /events: invalid API key/u);
  const secretFile = await writeSecretFile(t, "whsec_x");
  const unsigned = await listen("impact_test_x", ...to, "--secret-file", secretFile);
  t.is(unsigned.exitCode, 2);
  t.regex(unsigned.stderr, /secret-file: must be a secret, whsec_ and the Base64/u);
});

test("webhook listen accepts no secret on its command line, and sends the key only encrypted", async (t) => {
  const listen = listenIn(t);
  const to = ["--forward-to", "http://127.0.0.1:9/"];
  for (const option of ["--key", "--secret"]) {
    const shown = await listen("", ...to, option, SECRET);
    t.is(shown.exitCode, 2);
    t.regex(shown.stderr, /unknown option/u);
  }
  for (const url of ["http://impact.example", "http://127.0.0.1.example", "http://10.0.0.1:8080"]) {
    const open = await listen("impact_test_x", ...to, "--url", url);
    t.is(open.exitCode, 2);
    t.regex(open.stderr, /Must be an https:\/\/ URL, unless its host is localhost or a loopback/u);
  }
  const base = await runImpact(["webhook", "listen", ...to], {
    env: { PUBLIC_BASE_URL: "http://impact.example" },
    stdin: "impact_test_x",
  });
  t.is(base.exitCode, 2);
  t.regex(base.stderr, /The key would be sent to http:\/\/impact\.example in plain text/u);
});

test("webhook listen says that it has no response, or another program's", async (t) => {
  const { url } = await startReceiver(t);
  const listen = (...options: readonly string[]) =>
    listenIn(t)("k", "--forward-to", "http://127.0.0.1:9/", ...options);
  const other = await listen("--url", url);
  t.is(other.exitCode, 1);
  t.regex(other.stderr, /events: the response 204 is not the API's\. Check --url\.\n$/u);
  const absent = await listen("--url", "http://127.0.0.1:2");
  t.is(absent.exitCode, 4);
  t.regex(absent.stderr, /No response from http:\/\/127\.0\.0\.1:2\/events: /u);
});

const page = (...events: readonly object[]) =>
  answer(200, {}, JSON.stringify({ events, has_more: false }));

test("webhook listen goes on when the API does not respond for a while, and ends when its key is revoked", async (t) => {
  const api = await startReceiver(t);
  const receiver = await startReceiver(t);
  const event = {
    id: `evt_${"0".repeat(47)}1`,
    type: "registration.refunded",
    timestamp: "2026-05-01T00:00:00Z",
    data: {},
  };
  const responses = [
    page(),
    answer(503),
    answer(429),
    (response: ServerResponse) => void response.destroy(),
    page(event),
    answer(500),
    answer(401, {}, '{"error":"invalid API key"}'),
  ];
  api.respond((response) => responses.shift()?.(response));
  const run = await listenIn(t)(
    "k",
    "--forward-to",
    receiver.url,
    "--url",
    `http://127.0.0.1:${api.port}`,
  );
  t.is(run.exitCode, 1);
  t.is(receiver.received.length, 1);
  t.deepEqual(
    run.stderr.split("\n").map((line) => /response 5\d\d|invalid API key|Ready/u.exec(line)?.[0]),
    ["Ready", "response 503", "response 500", "invalid API key", undefined],
  );
});
