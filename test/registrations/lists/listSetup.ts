import { request } from "node:http";
import type { IncomingMessage } from "node:http";
import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../../db/sql.ts";
import type { Metadata } from "../../../modules/records/fields.rules.ts";
import { maximumJsonBytes } from "../../../modules/registrations/presentRegistration.rules.ts";

const page = z.object({ lines: z.string().nullable() });

/**
 * Returns the pool of lists with functions that are called before each page of a list is read, with its number from 1, and
 * after it, with its bytes.
 */
export const watchPages = (
  db: DatabasePool,
  {
    before = () => undefined,
    after = () => undefined,
  }: {
    readonly before?: (number: number) => unknown;
    readonly after?: (bytes: number) => void;
  },
): DatabasePool => {
  let number = 0;
  return {
    ...db,
    one: async (query, ...others) => {
      number += 1;
      await before(number);
      const row = await db.one(query, ...others);
      after(Buffer.byteLength(page.parse(row).lines ?? ""));
      return row;
    },
  };
};

/** Adds trees, three in each second. */
export const fillTrees = async (
  db: DatabasePool,
  accountId: string,
  rows: number,
  metadata: Metadata = {},
): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO registration (id, account_id, mode, kind, count, created_at, metadata, json_bytes)
    SELECT
      gen_random_uuid(), ${accountId}, 'live', 'tree', 1, now() - n / 3 * interval '1 second',
      ${JSON.stringify(metadata)}::jsonb, ${maximumJsonBytes({ idempotencyKey: null, attribution: "", metadata })}
    FROM generate_series(1, ${rows}) AS n
  `);
};

/**
 * Requests the list on a new connection and resolves as soon as the head of the response arrives, of which nothing is read. A
 * connection that has carried a whole list has a receive window that the next list may fit into.
 */
export const openList = (url: string, key: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    request(`${url}/plant/trees`, { agent: false, headers: { Authorization: key } })
      .on("response", (response) => {
        response.pause();
        response.on("error", () => undefined);
        resolve(response);
      })
      .on("error", reject)
      .end();
  });
