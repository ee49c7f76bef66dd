import { z } from "zod";
import { openPool } from "../db/pools/pool.ts";
import { sql } from "../db/sql.ts";
import { eventIdOf } from "../modules/events/events.rules.ts";
import type { RegistrationSizes } from "./measureRegistrations.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { LoadOptions, LoadReport } from "./support/runLoad.ts";
import { runLoad } from "./support/runLoad.ts";
import type { Services } from "./support/startServices.ts";
import { watchGroups } from "./support/watchMachine.ts";

const ACCOUNTS = 100;
const REGISTRATIONS = 2000;
/** Of each account. */
const IDS = 50;
/** Within a billing cycle, so that they can be refunded. */
const SPAN_SECONDS = 3600;
const WARM_UP_MS = 1500;

type Round = {
  readonly bare: LoadReport;
  readonly service: LoadReport;
  readonly cpu: Readonly<Record<"API" | "PostgreSQL", number>>;
};

const recordRow = z.strictObject({
  accountId: z.uuid(),
  id: z.uuid(),
  transactionId: z.string().transform(BigInt),
});

const one = (_account: string, id: string): string => `/one?${id}`;

const refundBody = (id: string): string => JSON.stringify({ id });

/** A request to the service, and the read of the bare handler that it is compared with. */
type Comparison = {
  readonly what: string;
  readonly bare: (account: string, id: string) => string;
} & Pick<LoadOptions, "posted"> & {
    readonly path: string | ((id: string) => string);
  };

type Recorded = Readonly<z.output<typeof recordRow>>;

/** @param newest the newest event of each account */
const comparisonsOf = (
  records: readonly Recorded[],
  newest: readonly Recorded[],
): readonly Comparison[] => {
  const newestOf = new Map(newest.map((event) => [event.accountId, eventIdOf(event)]));
  const newestEvents = new Map(records.map(({ accountId, id }) => [id, newestOf.get(accountId)]));
  const eventIds = new Map(records.map((record) => [record.id, eventIdOf(record)]));
  return [
    { what: "a page of 20", path: "/plant/trees?first=20", bare: (account) => `/page?${account}` },
    {
      what: "a page of 20 of an attribution",
      path: "/plant/trees?first=20&attribution_key=newsletter",
      bare: (account) => `/attribution?${account}`,
    },
    { what: "one id of the list", path: (id) => `/plant/trees?id=${id}`, bare: one },
    { what: "billing status of one id", path: (id) => `/usage/${id}`, bare: one },
    { what: "evidence of one id", path: (id) => `/evidence/tree/${id}`, bare: one },
    {
      what: "a refund that is refused",
      path: "/refund/trees",
      bare: one,
      posted: { bodies: records.map(({ id }) => refundBody(id)), status: 400 },
    },
    {
      what: "a page of 10 events",
      path: (id) => `/events?limit=10&starting_after=${eventIds.get(id)}`,
      bare: (account) => `/events?${account}`,
    },
    {
      what: "a poll that finds no new event",
      path: (id) => `/events?starting_after=${newestEvents.get(id)}`,
      bare: one,
    },
  ];
};

/** Refunds the registrations, so that every further refund is refused. */
const refundAll = async (
  url: string,
  keys: readonly string[],
  ids: readonly string[],
): Promise<void> => {
  for (const [index, id] of ids.entries()) {
    const response = await fetch(`${url}/refund/trees`, {
      method: "POST",
      headers: { Authorization: keys[index] ?? "", "Content-Type": "application/json" },
      body: refundBody(id),
    });
    if (!response.ok) {
      throw new Error(`A refund returned ${response.status}: ${await response.text()}`);
    }
  }
};

const describe = (
  { bare, service, cpu }: Round,
  others: number | null,
  roundMs: number,
): string => {
  const requests = (service.requestsPerSecond * (WARM_UP_MS + roundMs)) / 1000;
  const times = Object.entries(cpu).map(
    ([name, ms]) => `${name} ${((ms * 1000) / requests).toFixed(0)}`,
  );
  return (
    `${service.requestsPerSecond.toFixed(0)}/s, p50 ${service.p50Ms.toFixed(1)}, ` +
    `p99 ${service.p99Ms.toFixed(1)} ms, CPU of a request about ${times.join(", ")} µs; ` +
    `bare reader ${bare.requestsPerSecond.toFixed(0)}/s; ` +
    `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`
  );
};

/** Compares reads of few records, and refunds that are refused, with a bare Koa app that reads the same records. */
export const measureReads = async (
  services: Services,
  { connections, rounds, roundMs }: RegistrationSizes,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("reads");
  const accounts: readonly string[] = Array.from({ length: ACCOUNTS }, () => crypto.randomUUID());
  const accountKeys = await createAccounts(databaseUrl, accounts);
  for (const accountId of accounts) {
    await fillRegistrations(databaseUrl, {
      accountId,
      count: REGISTRATIONS,
      spanSeconds: SPAN_SECONDS,
      reported: true,
    });
  }
  const db = await openPool(databaseUrl, 1);
  await db.query(sql.typeAlias("void")`VACUUM (ANALYZE)`);
  const records = await db.any(sql.type(recordRow)`
    SELECT account.id AS "accountId", registration.id, registration.transaction_id::text AS "transactionId"
    FROM account
    CROSS JOIN LATERAL (
      SELECT id, transaction_id FROM registration WHERE account_id = account.id ORDER BY random() LIMIT ${IDS}
    ) AS registration
    ORDER BY random()
  `);
  const keys = records.map(({ accountId }) => accountKeys[accounts.indexOf(accountId)] ?? "");
  const ids = records.map(({ id }) => id);
  const api = await services.startProgram("api/main.ts", { DATABASE_URL: databaseUrl });
  const bareReader = await services.startProgram("bench/bareReader.ts", {
    DATABASE_URL: databaseUrl,
  });
  await refundAll(api.url, keys, ids);
  const newest = await db.any(sql.type(recordRow)`
    SELECT DISTINCT ON (account_id) account_id AS "accountId", id, transaction_id::text AS "transactionId"
    FROM event
    ORDER BY account_id, transaction_id DESC, id DESC
  `);
  await db.end();
  const results: Result[] = [];
  for (const { what, path, bare: barePath, posted } of comparisonsOf(records, newest)) {
    const load = { keys, connections, warmUpMs: WARM_UP_MS, durationMs: roundMs };
    const barePaths = records.map(({ accountId, id }) => barePath(accountId, id));
    const measured = await repeatUndisturbed(
      rounds,
      async (): Promise<Round> => {
        const bare = await runLoad({
          ...load,
          method: "GET",
          url: bareReader.url,
          paths: barePaths,
        });
        const readCpu = await watchGroups({ API: [api.pid], PostgreSQL: "postgres" });
        const service = await runLoad(
          posted
            ? { ...load, url: api.url + String(path), posted }
            : {
                ...load,
                method: "GET",
                url: api.url,
                paths: ids.map((id) => (typeof path === "string" ? path : path(id))),
              },
        );
        return { bare, service, cpu: await readCpu() };
      },
      (round, others) => report(`${what}: ${describe(round, others, roundMs)}`),
    );
    results.push(
      compareRounds(`${what}: requests/s compared with a bare reader`, measured, {
        value: ({ service }) => service.requestsPerSecond,
        baseline: ({ bare }) => bare.requestsPerSecond,
      }),
    );
  }
  await bareReader.stop();
  await api.stop();
  await services.dropDatabase("reads");
  return results;
};
