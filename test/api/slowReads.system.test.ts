import { z } from "zod";
import { testWithDatabase } from "../support/database.ts";
import { createTestOrganization } from "../support/factories.ts";
import { idIn } from "./contract.ts";
import { lockTable } from "../support/lockWaits.ts";
import { eventually, startProgram } from "../support/programs.ts";

const test = testWithDatabase();

test.serial(
  "blocked reads delay neither writes nor another account's reads, and end with a 503",
  async (t) => {
    const { db, databaseUrl } = t.context;
    const flooding = await createTestOrganization(db);
    const other = await createTestOrganization(db);
    const { urls } = await startProgram(t, "api/main.ts", {
      DATABASE_URL: databaseUrl,
      DATABASE_POOL_SIZE: "2",
      READ_TIMEOUT_SECONDS: "8",
      LOG_LEVEL: "silent",
    });
    const call = async (key: string, path: string, body?: object) => {
      const response = await fetch(`${urls["standalone"]}${path}`, {
        headers: { authorization: key, "content-type": "application/json" },
        ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
      });
      return {
        status: response.status,
        retryAfter: response.headers.get("retry-after"),
        body: await response.json(),
      };
    };
    const listDonations = () => call(flooding.apiKeyTest, "/charities/donations");
    t.like(await listDonations(), { status: 200 });
    const lock = await lockTable(t, databaseUrl, "donation");

    let listsDone = 0;
    const lists = Promise.all(
      Array.from({ length: 6 }, () =>
        listDonations().finally(() => {
          listsDone += 1;
        }),
      ),
    );
    await eventually(async () => (await lock.countWaiting()) === 1);
    const planted = await call(flooding.apiKeyTest, "/plant/trees", { count: 1 });
    const summary = await call(other.apiKeyTest, "/evidence");

    t.is(planted.status, 200);
    t.is(summary.status, 200);
    t.is(listsDone, 0, "neither waited for the lists to time out");
    const responses = await lists;
    t.deepEqual(new Set(responses.map(({ status }) => status)), new Set([503]));
    t.true(responses.every(({ retryAfter }) => retryAfter === "1"));
    t.true(
      responses.some(
        ({ body }) =>
          JSON.stringify(body) ===
          '{"error":"the query takes too long; narrow its filters, for example to an id, an email address or a shorter range of days"}',
      ),
    );
    await lock.release();
    t.like(await listDonations(), { status: 200 });
  },
);

/** How many queries of reads run or wait for a connection. */
const countReads = async (metricsUrl: string): Promise<number> => {
  const text = await (await fetch(`${metricsUrl}/metrics`)).text();
  const valueOf = (metric: string): number => Number(text.split(`${metric} `)[1]?.split("\n")[0]);
  return (
    valueOf('impact_database_connections{pool="reads",state="busy"}') +
    valueOf('impact_database_waiting{pool="reads"}')
  );
};

test.serial("slow reads of two accounts delay no short read of another", async (t) => {
  const { db, databaseUrl } = t.context;
  const [first, second, other] = [
    await createTestOrganization(db),
    await createTestOrganization(db),
    await createTestOrganization(db),
  ];
  const { urls } = await startProgram(t, "api/main.ts", {
    DATABASE_URL: databaseUrl,
    METRICS_PORT: "0",
    READ_TIMEOUT_SECONDS: "60",
    LOG_LEVEL: "silent",
  });
  const call = async (key: string, path: string, body?: object) => {
    const response = await fetch(`${urls["standalone"]}${path}`, {
      headers: { authorization: key, "content-type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    return { status: response.status, body: z.looseObject({}).parse(await response.json()) };
  };
  const planted = await call(other.apiKeyTest, "/plant/trees", { count: 1 });
  const id = idIn(planted.body, "tree");
  const lock = await lockTable(t, databaseUrl, "donation");

  // Without a part for slow reads, the first account would have three connections and the second one the last.
  let ended = 0;
  const slow = [first, first, first, second].map(({ apiKeyTest }) =>
    call(apiKeyTest, "/stats?kind=donation").finally(() => {
      ended += 1;
    }),
  );
  await eventually(async () => ended + (await countReads(urls["metrics"] ?? "")) === slow.length);
  for (const path of ["/events", `/usage/${id}`, `/evidence/tree/${id}`, "/evidence"]) {
    t.is((await call(other.apiKeyTest, path)).status, 200, path);
  }

  t.is(await lock.countWaiting(), 2, "a slow read of each account has waited meanwhile");
  await lock.release();
  await Promise.all(slow);
});
