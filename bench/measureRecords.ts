import type { DatabasePool } from "slonik";
import { z } from "zod";
import { openPool } from "../db/pools/pool.ts";
import { sql } from "../db/sql.ts";
import { createAccounts } from "./support/createAccounts.ts";
import { fillRegistrations } from "./support/fillRegistrations.ts";
import { repeatUndisturbed } from "./support/repeatUndisturbed.ts";
import { compareRounds } from "./support/compareRounds.ts";
import type { Result } from "./support/result.ts";
import type { Services } from "./support/startServices.ts";
import { timeCalls } from "./support/timeCalls.ts";

const KNOWN_REGISTRATIONS = 200_000;
const SPAN_SECONDS = 30 * 24 * 3600;
const LARGE = 100_000;
const SMALL = 1000;
/** Of a batch. */
const ITEMS = 1000;
const CALLS = 100;
/** Highest growth of a cost that counts as flat. */
const FLAT = 1.25;

type Account = { readonly key: string; readonly ids: readonly string[] };

type Send = (key: string, path: string, body?: unknown) => Promise<string>;

const createSend =
  (url: string): Send =>
  async (key, path, body) => {
    const response = await fetch(url + path, {
      headers: { Authorization: key, "Content-Type": "application/json" },
      ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${path} returned ${response.status}: ${text}`);
    }
    return text;
  };

const keyOf = (number: number): string => `order-${number}`;

/** Registers trees by batches, with a key each. */
const registerTrees = async (
  send: Send,
  db: DatabasePool,
  key: string,
  accountId: string,
  registrations: number,
): Promise<Account> => {
  for (let start = 0; start < registrations; start += ITEMS) {
    const items = Array.from({ length: ITEMS }, (_, index) => ({
      count: 1,
      idempotency_key: keyOf(start + index),
    }));
    await send(key, "/plant/trees/batch", { items });
  }
  // Each is read, repeated and refunded once in each round.
  const ids = await db.anyFirst(sql.type(z.strictObject({ id: z.uuid() }))`
    SELECT id FROM registration WHERE account_id = ${accountId} ORDER BY random() LIMIT ${SMALL}
  `);
  return { key, ids };
};

/** What is measured, of the account's record with a number. */
const operationsOf = (
  send: Send,
): Readonly<Record<string, (account: Account, record: number) => Promise<string>>> => ({
  "a replay": ({ key }, record) =>
    send(key, "/plant/trees", { count: 1, idempotency_key: keyOf(record) }),
  "one id of the list": ({ key, ids }, record) => send(key, `/plant/trees?id=${ids[record] ?? ""}`),
  "billing status of one id": ({ key, ids }, record) => send(key, `/usage/${ids[record] ?? ""}`),
  "evidence of one id": ({ key, ids }, record) => send(key, `/evidence/tree/${ids[record] ?? ""}`),
  "a refund": ({ key, ids }, record) => send(key, "/refund/trees", { id: ids[record] ?? "" }),
});

/**
 * Compares single records of a large account with those of a small one. Both are newer than the database's statistics,
 * which know another account.
 */
export const measureRecords = async (
  services: Services,
  rounds: number,
  report: (line: string) => void,
): Promise<readonly Result[]> => {
  const databaseUrl = await services.createDatabase("records");
  const [known = "", ...accountIds] = Array.from({ length: 3 }, () => crypto.randomUUID());
  const [, largeKey = "", smallKey = ""] = await createAccounts(databaseUrl, [
    known,
    ...accountIds,
  ]);
  await fillRegistrations(databaseUrl, {
    accountId: known,
    count: KNOWN_REGISTRATIONS,
    spanSeconds: SPAN_SECONDS,
    reported: true,
  });
  const db = await openPool(databaseUrl, 1);
  for (const table of ["registration", "usage_fact", "refund", "cached_response"]) {
    await db.query(sql.typeAlias("void")`
      ALTER TABLE ${sql.identifier([table])} SET (autovacuum_enabled = false)
    `);
  }
  const api = await services.startProgram("api/main.ts", {
    DATABASE_URL: databaseUrl,
  });
  const send = createSend(api.url);
  const [largeId = "", smallId = ""] = accountIds;
  const large = await registerTrees(send, db, largeKey, largeId, LARGE);
  const small = await registerTrees(send, db, smallKey, smallId, SMALL);
  const operations = Object.entries(operationsOf(send));
  let round = 0;
  const measured = await repeatUndisturbed(
    rounds,
    async () => {
      const first = (round * CALLS) % SMALL;
      round += 1;
      const times = new Map<string, { readonly large: number; readonly small: number }>();
      for (const [name, operate] of operations) {
        times.set(name, {
          large: await timeCalls(CALLS, (index) => operate(large, first + index)),
          small: await timeCalls(CALLS, (index) => operate(small, first + index)),
        });
      }
      return times;
    },
    (times, others) => {
      const list = Array.from(
        times,
        ([name, time]) => `${name} ${time.large.toFixed(1)} and ${time.small.toFixed(1)} ms`,
      );
      report(
        `of ${LARGE} and of ${SMALL} registrations: ${list.join(", ")}; ` +
          `other processes ${((others ?? 0) * 100).toFixed(0)} % of CPU`,
      );
    },
  );
  await db.end();
  await api.stop();
  await services.dropDatabase("records");
  return operations.map(([name]) => {
    const times = measured.flatMap((each) => each.get(name) ?? []);
    return compareRounds(
      `${name}, ${LARGE} registrations compared with ${SMALL}, without statistics: ms`,
      times,
      {
        value: (time) => time.large,
        baseline: (time) => time.small,
        digits: 1,
        goal: { atMost: FLAT },
      },
    );
  });
};
