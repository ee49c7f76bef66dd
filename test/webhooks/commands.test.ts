import type { ExecutionContext } from "ava";
import { Webhook } from "standardwebhooks";
import { z } from "zod";
import { systemClock } from "../../domain/clock.ts";
import { recordEvent } from "../../services/events/recordEvent.ts";
import { startStandaloneApi } from "../api/startStandaloneApi.ts";
import { readJson, runImpact } from "../cli/runImpact.ts";
import type { Run } from "../cli/runImpact.ts";
import { refunded } from "../events/readEvents.ts";
import { testWithDatabase } from "../support/database.ts";
import type { DatabaseContext } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { eventually } from "../support/programs.ts";
import { startReceiver } from "./startReceiver.ts";
import type { Receiver } from "./startReceiver.ts";

const test = testWithDatabase();

const JSON_URL = "https://shop.example/hook";
const SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDGDBvZsTuNW4=";

const withId = z.looseObject({ id: z.string() });
const entries = z.array(z.looseObject({ action: z.string(), subject: z.string().nullable() }));

const impactIn =
  ({ context: { databaseUrl } }: ExecutionContext<DatabaseContext>) =>
  (...args: readonly string[]): Promise<Run> =>
    runImpact(args, { env: { DATABASE_URL: databaseUrl } });

test("every command that changes an endpoint does it, says so, and is in the audit log", async (t) => {
  const impact = impactIn(t);
  const { db } = t.context;
  const { id: org } = await createTestOrganization(db);
  const run = async (...args: readonly string[]): Promise<unknown> => {
    const done = await impact("webhook", ...args, "--reason", "ticket 12", "--json");
    t.is(done.exitCode, 0, done.stderr);
    return readJson(done);
  };
  const created = await run("create", "--org", org, "--mode", "live", "--url", JSON_URL);
  const { id } = withId.parse(created);
  t.like(created, { url: JSON_URL, types: ["*"], disabled_reason: null });
  t.like(await run("update", id, "--types", "donation.created", "--description", "new"), {
    types: ["donation.created"],
    description: "new",
  });
  t.like(await run("update", id, "--all-types"), { types: ["*"] });
  t.like(await run("disable", id), { disabled_reason: "requested" });
  t.like(await run("enable", id), { disabled_reason: null });
  t.like(await run("rotate", id, "--revoke-previous"), { previous_valid_until: null });
  const { id: ping } = withId.parse(await run("ping", id));
  t.like(await run("retry", id, ping), { id: ping, state: "pending" });
  const since = new Date(Date.now() - 60_000).toISOString();
  t.deepEqual(await run("recover", id, "--since", since), { recovered_count: 0 });

  const list = await impact("webhook", "list", "--org", org);
  t.regex(list.stdout, /https:\/\/shop\.example\/hook +all +enabled/u);
  t.regex((await impact("webhook", "show", id)).stdout, /status +enabled/u);
  t.regex((await impact("webhook", "deliveries", id)).stdout, /evt_\w+ +ping +pending/u);
  t.regex((await impact("webhook", "attempts", id, ping)).stdout, /ATTEMPT +STARTED/u);

  t.deepEqual(await run("delete", id), { id, deleted: true });
  const gone = await impact("webhook", "show", id);
  t.regex(gone.stderr, /webhook endpoint not found/u);
  t.not(gone.exitCode, 0);

  const audit = await impact("audit", "list", "--account", org, "--json", "--limit", "100");
  const actions = entries
    .parse(readJson(audit))
    .filter(({ subject }) => subject === id)
    .map(({ action }) => action);
  t.deepEqual(actions.toReversed(), [
    "webhook.create",
    "webhook.update",
    "webhook.update",
    "webhook.disable",
    "webhook.enable",
    "webhook.rotate",
    "webhook.ping",
    "webhook.retry",
    "webhook.recover",
    "webhook.delete",
  ]);
  t.notRegex(audit.stdout, /whsec_/u);
});

test("a private URL is refused with the way to receive events on a developer's machine", async (t) => {
  const { id: org } = await createTestOrganization(t.context.db);
  const url = "https://localhost:3000/";
  const run = await impactIn(t)("webhook", "create", "--org", org, "--mode", "test", "--url", url);
  t.regex(run.stderr, /must have a public address; .*impact webhook listen/u);
});

/** Records events until the receiver has one: those from before the command listened are not sent. */
const recordUntilReceived = async (
  { context: { db } }: ExecutionContext<DatabaseContext>,
  accountId: string,
  receiver: Receiver,
): Promise<void> => {
  await eventually(async () => {
    await recordEvent(db, { accountId, mode: "test" }, refunded("new"), systemClock.now());
    return receiver.received.length > 0;
  });
};

for (const source of ["the API", "the database"]) {
  test(`webhook listen signs new events of ${source} and forwards them to a local server`, async (t) => {
    const { db } = t.context;
    const { id, apiKeyTest } = await createTestOrganization(db);
    const receiver = await startReceiver(t);
    const { url } = await startStandaloneApi(t, { db });
    await recordEvent(db, { accountId: id, mode: "test" }, refunded("old"), systemClock.now());
    const from = source === "the API" ? ["--key", apiKeyTest, "--url", url] : ["--org", id];
    const options = ["--forward-to", receiver.url, "--secret", SECRET, "--limit", "1"];
    const listening = impactIn(t)("webhook", "listen", ...from, ...options);
    await recordUntilReceived(t, id, receiver);
    const run = await listening;
    t.is(run.exitCode, 0, run.stderr);
    t.regex(run.stdout, /registration\.refunded evt_[0-9a-f]{48}: 204\n/u);
    const [request] = receiver.received;
    t.like(new Webhook(SECRET).verify(request?.body ?? "", request?.headers ?? {}), {
      type: "registration.refunded",
      data: { kind: "tree" },
    });
  });
}

test("webhook listen says what is missing, and passes on the API's error", async (t) => {
  const { url } = await startStandaloneApi(t, t.context);
  const impact = impactIn(t);
  const to = ["--forward-to", "http://127.0.0.1:9/"];
  t.like(await impact("webhook", "listen", ...to), {
    exitCode: 2,
    stderr: "impact: Pass --key or --org.\n",
  });
  const run = await impact("webhook", "listen", ...to, "--key", "impact_test_x", "--url", url);
  t.regex(run.stderr, /events: invalid API key/u);
});
