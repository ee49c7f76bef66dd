import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";
import { isImported } from "../records/ownedRecords.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { IMPORT_KINDS } from "./importedRecords.rules.ts";

const kindRow = z.strictObject({ kind: z.enum(IMPORT_KINDS), records: safeInteger });

/** Counts the imported records of an owner by their kinds. */
export const countImported = (
  db: CommonQueryMethods,
  { accountId, mode }: AccountMode,
): Promise<readonly Readonly<z.output<typeof kindRow>>[]> =>
  db.any(sql.type(kindRow)`
    SELECT kind, count(*) AS records
    FROM (
      SELECT id, kind FROM registration WHERE account_id = ${accountId} AND mode = ${mode}
      UNION ALL
      SELECT id, 'donation' FROM donation WHERE account_id = ${accountId} AND mode = ${mode}
    ) AS record
    WHERE ${isImported(sql.fragment`id`)}
    GROUP BY kind
  `);
