import type { ExecutionContext } from "ava";
import { z } from "zod";
import { systemClock } from "../../runtime/clock.ts";
import { startApiOf, startStandaloneApi } from "../api/startStandaloneApi.ts";
import { impactOf } from "../cli/runImpact.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseTest } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { chmod } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { Webhook } from "standardwebhooks";
import type { DatabasePool } from "slonik";
import { recordEvent } from "../../modules/events/recordEvent.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { refunded } from "./readEvents.ts";
import { writeTestFile } from "../history/importScene.ts";
import { eventually } from "../support/programs.ts";
import { answer, startReceiver } from "./startReceiver.ts";
import type { Receiver } from "./startReceiver.ts";

const test = testWithDatabase();

const HOOK_URL = "https://shop.example/hook";

const start = async (t: DatabaseTest, options?: Parameters<typeof startApiOf>[1]) => {
  const api = await startApiOf(t, options);
  const create = (body: object = {}) => api.post("/webhook_endpoints", { url: HOOK_URL, ...body });
  return { ...api, create };
};

const idOf = (body: unknown): string => z.looseObject({ id: z.string() }).parse(body).id;

test("an endpoint is created, listed, read, changed and deleted; its secret is shown once", async (t) => {
  const { apiKeyTest, call, key, get, post, create } = await start(t);
  const created = await create({ types: ["donation.created", "donation.created"] });
  const id = idOf(created.body);
  const shown = {
    id,
    url: HOOK_URL,
    types: ["donation.created"],
    description: "",
    status: "enabled",
    disabled_reason: null,
    disabled_at: null,
    failing_since: null,
    last_error: null,
    created_at: created.body["created_at"],
  };
  t.is(created.status, 200);
  const { secret, ...rest } = created.body;
  t.deepEqual(rest, shown);
  t.regex(String(secret), /^whsec_[A-Za-z0-9+/]{43}=$/u);
  const path = `/webhook_endpoints/${id}`;
  t.deepEqual((await get(path)).body, shown);
  t.deepEqual((await get("/webhook_endpoints")).body, { webhook_endpoints: [shown] });
  const { apiKeyProd } = await createTestOrganization(t.context.db);
  for (const stranger of [apiKeyTest, apiKeyProd]) {
    const others = await call("GET", "/webhook_endpoints", { key: stranger });
    t.deepEqual(others.body, { webhook_endpoints: [] });
    for (const [method, action] of [
      ["GET", ""],
      ["DELETE", ""],
      ["POST", "/rotate"],
      ["POST", "/ping"],
    ] as const) {
      t.is((await call(method, path + action, { key: stranger })).status, 404);
    }
  }

  const changes = { url: "https://shop.example/other", types: ["*"], description: "new" };
  const changed = { ...shown, ...changes };
  t.deepEqual((await post(path, changes)).body, changed);
  t.deepEqual((await post(path, {})).body, changed);

  t.like(await call("DELETE", path, { key }), { status: 200, body: { id, deleted: true } });
  t.is((await call("DELETE", path, { key })).status, 404);
  t.like(await get(path), { status: 404, body: { error: "webhook endpoint not found" } });
  t.deepEqual((await get("/webhook_endpoints")).body, { webhook_endpoints: [] });
  t.is((await create()).status, 200);
});

test("an endpoint is switched, pinged and given another secret", async (t) => {
  const { post, create } = await start(t);
  const created = await create();
  const path = `/webhook_endpoints/${idOf(created.body)}`;
  const act = (action: string) => post(`${path}/${action}`);

  const setStatus = (status: string) => post(path, { status });
  const disabled = { status: "disabled", disabled_reason: "requested" };
  t.like(await setStatus("disabled"), { body: disabled });
  t.like(await setStatus("disabled"), { status: 200, body: disabled });
  const error = "status: must be one of enabled, disabled";
  t.like(await setStatus("off"), { status: 400, body: { error } });
  const mustBeEnabled = { error: "the webhook endpoint is disabled; enable it first" };
  t.like(await act("ping"), { status: 400, body: mustBeEnabled });
  t.like(await setStatus("enabled"), { body: { status: "enabled", disabled_reason: null } });
  t.regex(idOf((await act("ping")).body), /^evt_[0-9a-f]{48}$/u);

  const rotated = await act("rotate");
  t.is(rotated.status, 200);
  t.not(rotated.body["secret"], created.body["secret"]);
  t.regex(String(rotated.body["previous_valid_until"]), /^2\d{3}-/u);
});

test("a URL that cannot be called is refused with the reason", async (t) => {
  const { create } = await start(t);
  for (const [url, error] of [
    ["http://10.0.0.1/", /^url: the host must have a public address; .*impact webhook listen/u],
    ["https://[::ffff:10.0.0.1]/", /^url: the host must have a public address/u],
    ["https://169.254.169.254/latest", /^url: the host must have a public address/u],
    ["https://user:secret@shop.example/", /^url: must not have a user name or a password/u],
    ["https://shop.example/#part", /^url: must not have a fragment/u],
    ["ftp://shop.example/", /^url: must begin with https:\/\//u],
    ["shop.example", /^url: must be a URL/u],
    [`https://shop.example/${"x".repeat(2048)}`, /^url: must be at most 2048 characters/u],
    // Its normal form has nine characters for each of these.
    [`https://shop.example/${"\u20AC".repeat(1000)}`, /^url: must be a URL of at most 2048/u],
    [7, /^url: must be a URL/u],
    [undefined, /^url: required$/u],
  ] as const) {
    const { status, body } = await create({ url });
    t.is(status, 400, String(url));
    t.regex(String(body["error"]), error);
  }
  const strict = await start(t, { webhookSettings: { allowsHttp: false, allowedNetworks: [] } });
  const insecure = await strict.create({ url: "http://shop.example/" });
  t.like(insecure, { status: 400, body: { error: "url: must begin with https://" } });
  const types = await create({ types: ["registration.created"] });
  t.is(types.status, 400);
  t.regex(String(types.body["error"]), /^types(?:\[0\]|\.0)?: /u);
  t.is((await create({ types: [] })).status, 400);
  const { status, body } = await create({ secret: "whsec_x" });
  t.is(status, 200);
  t.not(body["secret"], "whsec_x", "the service chooses the secret");
});

test("there are 16 endpoints at most", async (t) => {
  const { get, create } = await start(t);
  const results = await Promise.all(Array.from({ length: 20 }, () => create()));
  t.is(results.filter(({ status }) => status === 200).length, 16);
  const refused = results.find(({ status }) => status === 400);
  t.is(refused?.body["error"], "the maximum of 16 webhook endpoints is reached; delete one first");
  const listed = await get("/webhook_endpoints");
  t.is(z.array(z.unknown()).parse(listed.body["webhook_endpoints"]).length, 16);
});

test("a creation that is repeated with its key returns the endpoint with its secret", async (t) => {
  const { apiKeyTest, call, key } = await start(t);
  const headers = { "Idempotency-Key": "endpoint-1" };
  const create = (body: object = {}, usedKey = key) =>
    call("POST", "/webhook_endpoints", { key: usedKey, headers, body: { url: HOOK_URL, ...body } });
  const answers = await Promise.all([create(), create(), create()]);
  t.true(answers.every(({ status }) => status === 200));
  t.is(new Set(answers.map(({ text }) => text)).size, 1);
  t.is(answers.filter(({ replayed }) => replayed === "true").length, 2);
  const id = idOf(answers[0].body);

  const rotated = await call("POST", `/webhook_endpoints/${id}/rotate`, { key });
  const repeated = await create({ url: "https://shop.example/other" });
  t.like(repeated.body, { id, url: HOOK_URL, secret: String(rotated.body["secret"]) });

  t.not(idOf((await create({}, apiKeyTest)).body), id);
  await call("DELETE", `/webhook_endpoints/${id}`, { key });
  t.not(idOf((await create()).body), id);
  const error = "idempotency_key: must be given as the header Idempotency-Key";
  t.like(await create({ idempotency_key: "endpoint-1" }), { status: 400, body: { error } });
});

const entries = z.array(z.looseObject({ action: z.string(), subject: z.string().nullable() }));

test("every command that changes an endpoint does it, says so, and is in the audit log", async (t) => {
  const impact = impactOf(t);
  const { id: org } = await createTestOrganization(t.context.db);
  const run = (...args: readonly string[]) =>
    impact.json("webhook", ...args, "--reason", "ticket 12");
  const created = await run("create", "--org", org, "--mode", "live", "--url", HOOK_URL);
  const id = idOf(created);
  t.like(created, { url: HOOK_URL, types: ["*"], disabled_reason: null });
  const narrowed = await run("update", id, "--types", "donation.created", "--description", "new");
  t.like(narrowed, { types: ["donation.created"], description: "new" });
  t.like(await run("update", id, "--all-types"), { types: ["*"] });
  t.regex(await impact.fails(2, "webhook", "update", id), /Nothing to change/u);
  t.like(await run("update", id, "--disable"), { disabled_reason: "requested" });
  t.like(await run("update", id, "--enable"), { disabled_reason: null });
  t.like(await run("rotate", id), { id });
  const ping = idOf(await run("ping", id));
  t.deepEqual(await run("recover", id, ping), { recovered_count: 1 });
  const since = new Date(Date.now() - 60_000).toISOString();
  // The event that it was disabled.
  t.deepEqual(await run("recover", id, "--since", since), { recovered_count: 1 });

  const list = await impact("webhook", "list", "--org", org);
  t.regex(list.stdout, /https:\/\/shop\.example\/hook +\* +enabled/u);
  t.regex((await impact("webhook", "show", id)).stdout, /status +enabled/u);
  t.regex((await impact("webhook", "deliveries", id)).stdout, /evt_\w+ +ping +pending/u);

  t.deepEqual(await run("delete", id), { id, deleted: true });
  t.regex(await impact.fails(3, "webhook", "show", id), /webhook endpoint not found/u);

  const audit = await impact.json("audit", "list", "--org", org, "--limit", "100");
  const actions = entries
    .parse(audit)
    .flatMap(({ action, subject }) => (subject === id ? action.replace("webhook.", "") : []));
  t.is(
    actions.toReversed().join(" "),
    "create update update disable update update rotate ping recover recover delete",
  );
  t.notRegex(JSON.stringify(audit), /whsec_/u);
});

/** Records events until the receiver has one: those from before the command listened are not sent. */
const recordUntilReceived = (db: DatabasePool, owner: AccountMode, receiver: Receiver) =>
  eventually(async () => {
    await recordEvent(db, owner, systemClock.now(), refunded("new"));
    return receiver.received.length > 0;
  });

const writeSecretFile = async (t: ExecutionContext, content: string): Promise<string> => {
  const path = await writeTestFile(t, "secret", `${content}\n`);
  await chmod(path, 0o600);
  return path;
};

for (const source of ["standard input", "a file"]) {
  test(`webhook listen with a key on ${source} signs new events and forwards them to a local server`, async (t) => {
    const { db } = t.context;
    const { id, apiKeyTest } = await createTestOrganization(db);
    const receiver = await startReceiver(t);
    const { url } = await startStandaloneApi(t, { db });
    const owner = { accountId: id, mode: "test" } as const;
    await recordEvent(db, owner, systemClock.now(), refunded("old"));
    const isInput = source === "standard input";
    const from = isInput ? [] : ["--key-file", await writeSecretFile(t, apiKeyTest)];
    const stdin = isInput ? `${apiKeyTest}\n` : "";
    const to = ["--url", url, "--forward-to", `${receiver.url}/`, "--limit", "1"];
    const listening = impactOf(t, { stdin }, "webhook", "listen").ok(...from, ...to);
    await recordUntilReceived(db, owner, receiver);
    const run = await listening;
    const [secret = ""] = /whsec_\S+/u.exec(run.stderr) ?? [];
    t.regex(run.stdout, /registration\.refunded evt_[0-9a-f]{48}: 204\n/u);
    const [request] = receiver.received;
    t.is(request?.path, "/hook/", "the path as it was given");
    const sent = new Webhook(secret).verify(request?.body ?? "", request?.headers ?? {});
    t.like(sent, { type: "registration.refunded", data: { kind: "tree" } });
  });
}

test("webhook listen accepts no secret on its command line, sends the key only encrypted, and says what is wrong", async (t) => {
  const api = await startStandaloneApi(t, t.context);
  const another = await startReceiver(t);
  const mustBeEncrypted = /Must be an https:\/\/ URL, unless its host is localhost or a loopback/u;
  const noResponse = /No response from http:\/\/127\.0\.0\.1:2\/events\. Check that/u;
  const base = { PUBLIC_BASE_URL: "http://impact.example" };
  for (const [exitCode, message, options, stdin = "impact_test_x", env = {}] of [
    [2, /^impact: Give the API key on standard input or in a file with --key-file\.\n$/u, [], ""],
    [2, /unknown option/u, ["--key", "whsec_x"]],
    [2, /unknown option/u, ["--secret", "whsec_x"]],
    [2, mustBeEncrypted, ["--url", "http://impact.example"]],
    [2, mustBeEncrypted, ["--url", "http://127.0.0.1.example"]],
    [2, mustBeEncrypted, ["--url", "http://10.0.0.1:8080"]],
    [2, /The key would be sent to http:\/\/impact\.example in plain text/u, [], "k", base],
    [1, /events: invalid API key/u, ["--url", api.url]],
    [1, /events: the response is not JSON: check baseUrl\n$/u, ["--url", another.url]],
    [4, noResponse, ["--url", "http://127.0.0.1:2"]],
  ] as const) {
    const to = ["--forward-to", "http://127.0.0.1:9/", ...options];
    const run = await impactOf(t, { stdin, env })("webhook", "listen", ...to);
    t.is(run.exitCode, exitCode, run.stderr);
    t.regex(run.stderr, message);
  }
});

const page = (...events: readonly object[]) =>
  answer(200, {}, JSON.stringify({ events, has_more: false }));

test("webhook listen goes on when the API does not respond for a while, and ends when its key is revoked", async (t) => {
  const api = await startReceiver(t);
  const receiver = await startReceiver(t);
  const content = { type: "registration.refunded", timestamp: "2026-05-01T00:00:00Z", data: {} };
  const event = { id: `evt_${"0".repeat(47)}1`, ...content };
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
  const to = ["--forward-to", receiver.url, "--url", `http://127.0.0.1:${api.port}`];
  const message = await impactOf(t, { stdin: "k" }).fails(1, "webhook", "listen", ...to);
  t.is(receiver.received.length, 1);
  // The same for the key whenever it is used.
  t.regex(
    message,
    /^Ready\..* secret whsec_4SPxB519Ru9U\/bmCgDjEnnPhpSebzOXtucFsZ\+mM6Rg= and .*\nimpact: .*: invalid API key\n$/u,
  );
});
