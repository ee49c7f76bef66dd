import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import { accountTypeColumn } from "../records/columns.sql.ts";
import { sql } from "../../db/sql.ts";

/** What every look-up takes. */
export type LookupOptions = {
  readonly text: string;
  /** Null looks in all accounts. */
  readonly accountId: string | null;
  readonly limit: number;
};

export const accountFields = {
  accountId: z.uuid(),
  accountName: z.string(),
  accountType: accountTypeColumn,
};

export const accountColumns = sql.fragment`
  account.id AS "accountId",
  account.name AS "accountName",
  account.type AS "accountType"
`;

export const inAccount = (accountId: string | null): FragmentSqlToken =>
  accountId === null ? sql.fragment`true` : sql.fragment`account.id = ${accountId}`;
