import { once } from "node:events";
import { request as sendRequest } from "node:http";
import type { IncomingMessage } from "node:http";
import { text as readText } from "node:stream/consumers";
import type { ExecutionContext } from "ava";
import { revokeApiKey } from "../../../modules/accounts/apiKeys.sql.ts";
import { openPool } from "../../../db/pools/pool.ts";
import { runForClient } from "../../../runtime/client.ts";
import { SERVICE } from "../../../modules/accounts/audit.rules.ts";
import { createAuthenticator } from "../../../modules/accounts/createAuthenticator.ts";
import { issueKey } from "../../../modules/accounts/issueKey.ts";
import { createCachedTreeLookup } from "../../../modules/planting/createCachedTreeLookup.ts";
import { startStandaloneApi } from "../../api/startStandaloneApi.ts";
import type { StandaloneApiOptions } from "../../api/startStandaloneApi.ts";
import { testWithDatabase } from "../../support/database.ts";
import type { DatabaseContext } from "../../support/database.ts";
import { createTestOrganization } from "../../support/factories.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { lockTable } from "../../support/lockWaits.ts";
import { eventually } from "../../support/programs.ts";
import { setUpPlanting } from "../setUpPlanting.ts";
import { createAndPlace } from "./evidenceApi.ts";

const test = testWithDatabase();

/** Starts processes of the interface for an organization with trees in an order. */
const setUp = async (t: ExecutionContext<DatabaseContext>, stages = 3) => {
  const { db } = t.context;
  const setup = await setUpPlanting(db);
  const { clock, organization, deps } = setup;
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(stages * STAGE_MS);
  const key = organization.apiKeyProd;
  const start = async (options: Partial<StandaloneApiOptions> = {}) => {
    const api = await startStandaloneApi(t, {
      db,
      clock,
      planting: deps.planting,
      publicBaseUrl: "https://impact.example",
      ...options,
    });
    const read = async (headers: Readonly<Record<string, string>> = {}, path = id) => {
      const request = sendRequest(`${api.url}/evidence/tree/${path}`, {
        headers: { Authorization: key, ...headers },
      }).end();
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- Node's events have no types.
      const [response] = (await once(request, "response")) as [IncomingMessage];
      const body = await readText(response);
      return {
        status: response.statusCode,
        rawHeaders: response.rawHeaders,
        headers: new Headers(
          Object.entries(response.headersDistinct).map(([name, [value = ""] = []]) => [
            name,
            value,
          ]),
        ),
        body,
      };
    };
    return { ...api, read };
  };
  return { ...setup, db, databaseUrl: t.context.databaseUrl, id, key, start };
};

/** Returns a response's headers with their names as sent, in alphabetical order. */
const headersOf = ({ rawHeaders }: { readonly rawHeaders: readonly string[] }) =>
  rawHeaders
    .flatMap((name, index) => (index % 2 === 0 ? [[name, rawHeaders[index + 1] ?? ""]] : []))
    .filter(([name = ""]) => !["Date", "X-Request-Id"].includes(name))
    .toSorted(([left = ""], [right = ""]) => (left < right ? -1 : 1));

for (const [state, stages] of [
  ["polled", 1],
  ["complete", 3],
] as const) {
  test.serial(
    `${state} evidence is the same when it is rendered and from the cache, and is logged each time`,
    async (t) => {
      const { start, organization, id, clock } = await setUp(t, stages);
      const { read, logged } = await start();
      const rendered = await read();
      clock.set("2026-09-01T00:00:00.000Z");

      const first = await read({ "X-Request-Id": "first" });
      const again = await read({ "X-Request-Id": "again" });

      t.is(again.status, 200);
      t.is(again.body, rendered.body);
      t.deepEqual(headersOf(again), headersOf(first));
      t.is(again.headers.get("age") === null, state === "polled");
      t.is(again.headers.get("x-request-id"), "again");
      const lines = logged().filter((entry) => entry["requestId"] === "again");
      t.is(lines.length, 1);
      t.like(lines[0], {
        route: "/evidence/tree/:id",
        status: 200,
        accountId: organization.id,
      });
      t.is(typeof lines[0]?.["keyId"], "string");
      t.regex((await read()).headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/u);
      t.is((await read({}, id.toUpperCase())).body, rendered.body);
    },
  );
}

test.serial("cached evidence has a tag, and is the same at any spelling of its path", async (t) => {
  const { start, id, key } = await setUp(t);
  const { read, url } = await start();
  const { headers, body } = await read();

  const etag = headers.get("etag") ?? "";
  t.like(await read({ "If-None-Match": etag }), { status: 304, body: "" });
  t.like(await read({}, `${id}?utm_source=x`), { status: 200, body });
  t.like(await read({}, `${id}?evidence_stage=planted`), { status: 200 });
  t.like(await read({}, `${id}/`), { status: 200, body });
  t.like(await read({}, crypto.randomUUID()), { status: 404 });
  const head = await fetch(`${url}/evidence/tree/${id}`, {
    method: "HEAD",
    headers: { Authorization: key },
  });
  t.is(head.status, 200);
});

test.serial("cached evidence is only for valid keys of its account and mode", async (t) => {
  const { start, db, clock, organization, key } = await setUp(t);
  const time = { nowMs: 1 };
  const authenticator = createAuthenticator({
    db,
    clock,
    accountType: "organization",
    nowMs: () => time.nowMs,
  });
  const { read } = await start({ authenticator });
  const other = await createTestOrganization(db, { clock });
  const issue = (expiresAt: Date | null) =>
    issueKey({ db, clock, actor: SERVICE }, { id: organization.id, type: "organization" }, "live", {
      name: "for a test",
      scope: "read",
      expiresAt,
    });
  const expiring = await issue(new Date(clock.now().getTime() + 60_000));
  const revoked = await issue(null);
  await read();
  const readAs = (given: string) => read({ Authorization: given });

  for (const given of [other.apiKeyProd, other.apiKeyTest, organization.apiKeyTest]) {
    for (const _ of [1, 2, 3]) {
      t.like(await readAs(given), { status: 404 });
    }
  }
  for (const given of ["", "x", `${key}x`, key.toUpperCase(), `Token ${key}`]) {
    t.like(await readAs(given), { status: 403 });
  }

  for (const { key: given } of [expiring, revoked]) {
    t.like(await readAs(given), { status: 200 });
  }
  clock.set(new Date(clock.now().getTime() + 60_000).toISOString());
  t.like(await readAs(expiring.key), { status: 403 });
  await revokeApiKey(db, revoked.id, clock.now());
  t.like(await readAs(revoked.key), { status: 200 }, "the key is cached");
  for (const endMs = time.nowMs + 5000; time.nowMs < endMs; time.nowMs += 500) {
    await readAs(revoked.key);
  }
  t.like(await readAs(revoked.key), { status: 403 });
});

test.serial("a client that has gone while its evidence is looked up is logged", async (t) => {
  const { start, id, key } = await setUp(t);
  const { read, url, logged } = await start();
  await read();
  const lock = await lockTable(t, t.context.databaseUrl, "cached_response");
  const gone = sendRequest(`${url}/evidence/tree/${id}`, {
    headers: { Authorization: key, "X-Request-Id": "gone" },
  }).end();
  gone.on("error", () => undefined);
  await eventually(async () => (await lock.countWaiting()) === 1);
  gone.destroy();
  // By the time these are answered, the process has noticed that the connection is closed.
  for (const _ of [1, 2, 3]) {
    await fetch(`${url}/healthz`);
  }
  await lock.release();
  await eventually(() => logged().some(({ requestId }) => requestId === "gone"));
  t.like(
    logged().find(({ requestId }) => requestId === "gone"),
    { aborted: true, clientAddress: "127.0.0.1" },
  );
  t.like(await read(), { status: 200 });
});

test.serial("no process returns from memory what a client has just changed", async (t) => {
  const { start, refund, id } = await setUp(t);
  const processes = [await start(), await start()] as const;
  for (const { read } of processes) {
    await read();
    await read();
  }

  for (const refundedCount of [1, 2, 3]) {
    // Their look-ups may be running meanwhile, and must not serve later requests.
    const earlier = processes.flatMap(({ read }) => [read(), read(), read()]);
    await refund(id, 1);
    const later = await Promise.all(processes.map(({ read }) => read()));
    await Promise.all(earlier);
    for (const { body } of later) {
      t.is(JSON.parse(body).refunded_count, refundedCount);
    }
    for (const { read } of processes) {
      const again = await read();
      t.is(JSON.parse(again.body).refunded_count, refundedCount);
    }
  }
});

test.serial("no lookup of evidence waits for the other queries of an account", async (t) => {
  const { start, databaseUrl, clock, organization, id } = await setUp(t);
  const { body } = await (await start()).read();
  const db = await openPool(databaseUrl, 2, 60_000, { maximumWaitMs: 1 });
  t.teardown(() => db.end());
  const find = createCachedTreeLookup({
    db,
    clock,
    publicBaseUrl: () => "https://impact.example",
  });
  const tree = { accountId: organization.id, mode: "live", id } as const;
  // The account has its whole share of the two connections.
  const gate = Promise.withResolvers<null>();
  const slow = runForClient(organization.id, () => db.transaction(() => gate.promise));

  const own = runForClient(organization.id, () => find(tree));
  const others = runForClient("another", () => find({ ...tree, accountId: crypto.randomUUID() }));

  t.is((await own)?.body, body);
  t.is(await others, null);
  gate.resolve(null);
  await slow;
});
