import { once } from "node:events";
import { request as sendRequest } from "node:http";
import type { IncomingMessage } from "node:http";
import { text as readText } from "node:stream/consumers";
import { setImmediate as nextLoopIteration } from "node:timers/promises";
import type { ExecutionContext } from "ava";
import { revokeApiKey } from "../../../modules/accounts/apiKeys.sql.ts";
import { createReadShares, runForAccount } from "../../../db/pools/connectionShares.ts";
import { openTurnPool } from "../../../db/pools/pool.ts";
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

/** The app serves this request, because it is conditional, and ignores the condition. */
const BY_APP = { "If-Modified-Since": "Thu, 01 Jan 2026 00:00:00 GMT" };

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
      const before = api.appRequests();
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
        isByApp: api.appRequests() > before,
      };
    };
    /** Reads until the text is in memory: the first request renders it, the second one reads what is cached. */
    const fill = async () => {
      const first = await read();
      t.true(first.isByApp);
      await read();
      t.like(await read(), { status: 200, body: first.body, isByApp: false });
      return first;
    };
    return { ...api, read, fill };
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
    `${state} evidence is the same from the app and from memory, and is logged each time`,
    async (t) => {
      const { start, organization, id, clock } = await setUp(t, stages);
      const { read, fill, logged } = await start();
      await fill();
      clock.set("2026-09-01T00:00:00.000Z");

      const byApp = await read({ ...BY_APP, "X-Request-Id": "by-app" });
      const fromMemory = await read({ "X-Request-Id": "from-memory" });

      t.deepEqual([byApp.isByApp, fromMemory.isByApp], [true, false]);
      t.is(fromMemory.status, 200);
      t.is(fromMemory.body, byApp.body);
      t.deepEqual(headersOf(fromMemory), headersOf(byApp));
      t.is(fromMemory.headers.get("age") === null, state === "polled");
      t.is(fromMemory.headers.get("x-request-id"), "from-memory");
      const lineOf = (requestId: string) => {
        const [line, ...others] = logged().filter((entry) => entry["requestId"] === requestId);
        t.deepEqual(others, []);
        t.is(typeof line?.["durationMs"], "number");
        const { time: _time, durationMs: _duration, requestId: _id, ...rest } = line ?? {};
        return rest;
      };
      t.deepEqual(lineOf("from-memory"), lineOf("by-app"));
      t.like(lineOf("from-memory"), {
        route: "/evidence/tree/:id",
        status: 200,
        accountId: organization.id,
      });
      t.is(typeof lineOf("from-memory")["keyId"], "string");
      t.regex((await read()).headers.get("x-request-id") ?? "", /^[0-9a-f-]{36}$/u);
      t.is((await read({}, id.toUpperCase())).body, byApp.body);
    },
  );
}

test.serial("what is not exactly usual is left to the app", async (t) => {
  const { start, id, key } = await setUp(t);
  const { read, fill, url, appRequests } = await start();
  const first = await fill();
  t.like(await read({ Authorization: `Bearer ${key}` }), { status: 403, isByApp: true });

  const etag = first.headers.get("etag") ?? "";
  t.like(await read({ "If-None-Match": etag }), { status: 304, body: "", isByApp: true });
  t.like(await read({}, `${id}?utm_source=x`), { status: 200, isByApp: true });
  t.like(await read({}, `${id}?evidence_stage=planted`), { status: 200, isByApp: true });
  t.like(await read({}, `${id}/`), { status: 200, isByApp: true });
  t.like(await read({}, crypto.randomUUID()), { status: 404, isByApp: true });
  t.like(await read({}, "%00"), { isByApp: true });
  const before = appRequests();
  const head = await fetch(`${url}/evidence/tree/${id}`, {
    method: "HEAD",
    headers: { Authorization: key },
  });
  t.is(head.status, 200);
  t.is(appRequests(), before + 1);
});

test.serial("evidence in memory is only for valid keys of its account and mode", async (t) => {
  const { start, db, clock, organization, key } = await setUp(t);
  const time = { nowMs: 1 };
  const authenticator = createAuthenticator({
    db,
    clock,
    accountType: "organization",
    nowMs: () => time.nowMs,
  });
  const { read, fill } = await start({ authenticator });
  const other = await createTestOrganization(db, { clock });
  const issue = (expiresAt: Date | null) =>
    issueKey({ db, clock, actor: SERVICE }, { id: organization.id, type: "organization" }, "live", {
      name: "for a test",
      scope: "read",
      expiresAt,
    });
  const expiring = await issue(new Date(clock.now().getTime() + 60_000));
  const revoked = await issue(null);
  await fill();
  const readAs = (given: string) => read({ Authorization: given });

  for (const given of [other.apiKeyProd, other.apiKeyTest, organization.apiKeyTest]) {
    for (const _ of [1, 2, 3]) {
      t.like(await readAs(given), { status: 404, isByApp: true });
    }
  }
  for (const given of ["", "x", `${key}x`, key.toUpperCase(), `Token ${key}`]) {
    t.like(await readAs(given), { status: 403, isByApp: true });
  }

  for (const { key: given } of [expiring, revoked]) {
    t.like(await readAs(given), { status: 200, isByApp: true });
    t.like(await readAs(given), { status: 200, isByApp: false });
  }
  clock.set(new Date(clock.now().getTime() + 60_000).toISOString());
  t.like(await readAs(expiring.key), { status: 403, isByApp: true });
  await revokeApiKey(db, revoked.id, clock.now());
  t.like(await readAs(revoked.key), { status: 200, isByApp: false }, "the key is cached");
  for (const endMs = time.nowMs + 5000; time.nowMs < endMs; time.nowMs += 500) {
    await readAs(revoked.key);
  }
  t.like(await readAs(revoked.key), { status: 403, isByApp: true });
});

/** Locks the cached responses, so that confirmations wait. */
const lockResponses = async (t: ExecutionContext<DatabaseContext>) => {
  const { countWaiting, ...lock } = await lockTable(t, t.context.databaseUrl, "cached_response");
  return { ...lock, untilWaiting: () => eventually(async () => (await countWaiting()) === 1) };
};

test.serial(
  "the app responds if the confirmation fails, and a client that has gone is logged",
  async (t) => {
    const { start, id, key } = await setUp(t);
    const { read, fill, url, logged } = await start();
    const first = await fill();
    const lock = await lockResponses(t);
    const failing = read();
    await lock.untilWaiting();
    await lock.cancelWaiting();
    await lock.untilWaiting();
    await lock.release();
    t.like(await failing, { status: 200, body: first.body, isByApp: true });

    const again = await lockResponses(t);
    const gone = sendRequest(`${url}/evidence/tree/${id}`, {
      headers: { Authorization: key, "X-Request-Id": "gone" },
    }).end();
    gone.on("error", () => undefined);
    await again.untilWaiting();
    gone.destroy();
    // By the time these are answered, the process has noticed that the connection is closed.
    for (const _ of [1, 2, 3]) {
      await fetch(`${url}/healthz`);
    }
    await again.release();
    await eventually(() => logged().some(({ requestId }) => requestId === "gone"));
    t.like(
      logged().find(({ requestId }) => requestId === "gone"),
      { aborted: true, clientAddress: "127.0.0.1" },
    );
    t.like(await read(), { status: 200, isByApp: false });
  },
);

test.serial("no process returns from memory what a client has just changed", async (t) => {
  const { start, refund, id } = await setUp(t);
  const processes = [await start(), await start()] as const;
  for (const { read } of processes) {
    await read();
    await read();
    t.false((await read()).isByApp);
  }

  for (const refundedCount of [1, 2, 3]) {
    // Their confirmations may be running meanwhile, and must not serve later requests.
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
      t.false((await read()).isByApp);
    }
  }
});

const runFor = <Result>(accountId: string, work: () => Result): Result =>
  runForAccount({ accountId, kind: "get /evidence/tree/:id" }, work);

test.serial("no lookup of evidence waits for the slow reads of an account", async (t) => {
  const { start, databaseUrl, clock, organization, id } = await setUp(t);
  const { body } = await (await start()).fill();
  const reads = await openTurnPool(databaseUrl, {
    maximumConnections: 2,
    statementTimeoutMs: 60_000,
    shares: createReadShares(2, { maximumWaitMs: 1 }),
  });
  t.teardown(() => reads.end());
  const { find, confirm } = createCachedTreeLookup({
    db: reads,
    clock,
    publicBaseUrl: () => "https://impact.example",
  });
  const tree = { accountId: organization.id, mode: "live", id } as const;
  // The account has its whole share of the two connections.
  const gate = Promise.withResolvers<null>();
  const slow = runFor(organization.id, () => reads.transaction(() => gate.promise));

  for (const lookUp of [find, confirm]) {
    const own = runFor(organization.id, () => lookUp(tree));
    const others = runFor("another", () => find({ ...tree, accountId: crypto.randomUUID() }));

    const [found, notFound] = await Promise.all([own, others]);
    t.is(found?.body, body);
    t.is(notFound, null);
    // The next lookup starts the loop anew.
    await nextLoopIteration();
  }
  gate.resolve(null);
  await slow;
});
