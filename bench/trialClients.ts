import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { access, readFile, rename, writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { openPool } from "../db/pools/pool.ts";
import { sql } from "../db/sql.ts";
import { startProviderDouble } from "../test/charities/startProviderDouble.ts";
import { startStripeDouble } from "../test/stripeDouble/startStripeDouble.ts";

/*
 * The outside companies and the clients of bench/trial.sh, which runs this program and talks to it through files in a folder:
 * `doubles.env` has the doubles' settings; `clients.env` starts the clients; `clients.stop` stops them, and compares every
 * request that succeeded with what the database and Stripe have. `done` is the end.
 */

const CLIENTS = 4;
const PAUSE_MS = 30;
const [folder = "."] = process.argv.slice(2);
const inFolder = (name: string): string => join(folder, name);

const waitForFile = async (name: string): Promise<string> => {
  for (;;) {
    const exists = await access(inFolder(name)).then(
      () => true,
      () => false,
    );
    if (exists) {
      return readFile(inFolder(name), "utf8");
    }
    await delay(100);
  }
};

/** Others see the whole file or none. */
const writeWhole = async (name: string, content: string): Promise<void> => {
  await writeFile(inFolder(`${name}.part`), content);
  await rename(inFolder(`${name}.part`), inFolder(name));
};

const stripe = await startStripeDouble();
const { customerId, subscriptionId } = stripe.control.addSubscriber({});
const charities = await startProviderDouble();
const nonprofit = {
  primarySlug: "trial",
  name: "The Trial",
  ein: "222222221",
  isDisbursable: true,
};
charities.responses.set("/everyorg/nonprofit/222222221", { data: { nonprofit } });
await writeWhole(
  "doubles.env",
  [
    `export STRIPE_API_BASE=${stripe.url}`,
    `export STRIPE_SECRET_KEY=${stripe.secretKey}`,
    `export EVERYORG_API_BASE=${charities.url}/everyorg`,
    "export EVERYORG_API_KEY=key",
    `CUSTOMER=${customerId}`,
    `SUBSCRIPTION=${subscriptionId}`,
    "",
  ].join("\n"),
);

const settings = Object.fromEntries(
  (await waitForFile("clients.env")).split("\n").map((line) => {
    const [name = "", ...value] = line.split("=");
    return [name, value.join("=")];
  }),
);
const { PORT = "", KEY = "", CA = "", DATABASE = "" } = settings;
const ca = await readFile(CA);
const agent = new Agent({ keepAlive: true, ca, servername: "impact.example.org" });
const stopped = new AbortController();

const record = z.object({ id: z.string(), count: z.int() });
const registered = z.object({ tree_details: z.tuple([record]) });

const post = async (path: string, body: object): Promise<{ status: number; body: string }> => {
  const sent = request({
    agent,
    host: "127.0.0.1",
    port: Number(PORT),
    path,
    method: "POST",
    headers: {
      host: "impact.example.org",
      authorization: KEY,
      "content-type": "application/json",
    },
  });
  sent.end(JSON.stringify(body));
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the event's only argument.
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: await text(response) };
};

const acknowledged = new Map<string, { readonly count: number; refunded: number }>();
const failures = new Map<string, number>();
const log = createWriteStream(inFolder("acknowledged.ndjson"));
let requests = 0;
let longestMs = 0;

/** Sends a request until it succeeds, under one idempotency key, as a client does that must not lose it. */
const postUntilDone = async (path: string, body: object): Promise<string> => {
  const sentAtMs = performance.now();
  for (;;) {
    requests += 1;
    const result = await post(path, body).catch((error: unknown) => ({
      status: 0,
      body: error instanceof Error ? error.message : String(error),
    }));
    if (result.status === 200) {
      longestMs = Math.max(longestMs, performance.now() - sentAtMs);
      return result.body;
    }
    const what = `${result.status} ${result.body.slice(0, 100)}`;
    if (!failures.has(what)) {
      console.log(`${new Date().toISOString()} first failure of this kind: ${what}`);
    }
    failures.set(what, (failures.get(what) ?? 0) + 1);
    await delay(200);
  }
};

const runClient = async (): Promise<void> => {
  while (!stopped.signal.aborted) {
    const count = 1 + Math.floor(Math.random() * 5);
    const key = crypto.randomUUID();
    const body = await postUntilDone("/plant/trees", { count, idempotency_key: key });
    const [{ id }] = registered.parse(JSON.parse(body)).tree_details;
    const entry = { count, refunded: 0 };
    acknowledged.set(id, entry);
    if (acknowledged.size % 10 === 0) {
      await postUntilDone("/refund/trees", { id, count: 1, idempotency_key: `refund-${key}` });
      entry.refunded = 1;
    }
    log.write(`${JSON.stringify({ id, ...entry })}\n`);
    await delay(PAUSE_MS);
  }
};

const clients = Array.from({ length: CLIENTS }, runClient);
await waitForFile("clients.stop");
stopped.abort();
await Promise.all(clients);
log.end();
console.log(
  `${requests} requests, ${acknowledged.size} registrations were acknowledged; the longest took ${longestMs.toFixed(0)} ms`,
);
for (const [what, times] of failures) {
  console.log(`failed and repeated ${times} times: ${what}`);
}

const db = await openPool(DATABASE, 1);
const storedRow = z.object({ id: z.string(), count: z.int(), refunded: z.int() });
const stored = await db.any(sql.type(storedRow)`
  SELECT id, count::integer AS count, refunded_count::integer AS refunded
  FROM registration
  WHERE mode = 'live'
`);
const secondRow = z.object({ second: z.int(), quantity: z.int() });
const readRecorded = () =>
  db.any(sql.type(secondRow)`
    SELECT
      floor(extract(epoch FROM created_at))::integer AS second,
      sum(count - refunded_count)::integer AS quantity
    FROM registration
    WHERE mode = 'live'
    GROUP BY 1
    HAVING sum(count - refunded_count) <> 0
  `);
const byId = new Map(stored.map((row) => [row.id, row]));
const lost = [...acknowledged].filter(([id, { count, refunded }]) => {
  const row = byId.get(id);
  return row?.count !== count || row.refunded !== refunded;
});
console.log(
  `acknowledged and not recorded as acknowledged: ${lost.length}; recorded: ${stored.length}, of which the clients do not know ${stored.filter(({ id }) => !acknowledged.has(id)).length}`,
);

const differing = async (): Promise<readonly (readonly [number, number, number])[]> => {
  const recorded = new Map((await readRecorded()).map((row) => [row.second, row.quantity]));
  const billed = new Map(
    stripe.control.usage({ customerId }).map(({ second, value }) => [second, value]),
  );
  return [...new Set([...recorded.keys(), ...billed.keys()])]
    .map((second) => [second, recorded.get(second) ?? 0, billed.get(second) ?? 0] as const)
    .filter(([, ours, theirs]) => ours !== theirs);
};
const WAIT_MS = 90_000;
const startedAtMs = performance.now();
let differences = await differing();
while (differences.length > 0 && performance.now() - startedAtMs < WAIT_MS) {
  await delay(500);
  differences = await differing();
}
const seconds = await readRecorded();
console.log(
  `seconds with usage: ${seconds.length}, units ${seconds.reduce((sum, { quantity }) => sum + quantity, 0)}; seconds in which Stripe differs: ${differences.length}, after ${((performance.now() - startedAtMs) / 1000).toFixed(1)} s`,
);
for (const [second, ours, theirs] of differences.slice(0, 20)) {
  console.log(`second ${second}: recorded ${ours}, billed ${theirs}`);
}
console.log(`calls that Stripe would have refused: ${stripe.control.problems().length}`);
const isRight = lost.length === 0 && differences.length === 0;
console.log(isRight ? "EVERY SECOND AGREES" : "THE BOOKS DIFFER");
await writeWhole("done", isRight ? "ok" : "differ");
await db.end();
agent.destroy();
await stripe.close();
await charities.close();
process.exit(isRight ? 0 : 1);
