import type { FragmentSqlToken } from "slonik";
import type { AccountMode, Kind } from "../domain/accounts/accounts.ts";
import { isUuid } from "../domain/fields.ts";
import { isRecordId } from "../domain/recordIds.ts";
import { sql } from "./sql.ts";

/** Returns the condition that a record of the owner has an id: its own, or the one that it was imported with. */
const ownedWithId = (
  table: "registration" | "donation",
  owned: FragmentSqlToken,
  id: string,
): FragmentSqlToken => {
  if (!isRecordId(id)) {
    return sql.fragment`FALSE`;
  }
  const name = sql.identifier([table]);
  const own = isUuid(id) ? sql.fragment`UNION ALL SELECT ${id}::uuid` : sql.fragment``;
  // Two index searches. With an OR, the planner may read all records of the owner.
  return sql.fragment`${owned}
    AND ${name}.id = ANY(ARRAY(SELECT id FROM ${name} WHERE ${owned} AND ${name}.imported_id = ${id} ${own}))`;
};

export const registrationWithId = (
  { accountId, mode, kind }: AccountMode & { readonly kind: Kind },
  id: string,
): FragmentSqlToken =>
  ownedWithId(
    "registration",
    sql.fragment`registration.account_id = ${accountId} AND registration.mode = ${mode} AND registration.kind = ${kind}`,
    id,
  );

export const donationWithId = ({ accountId, mode }: AccountMode, id: string): FragmentSqlToken =>
  ownedWithId(
    "donation",
    sql.fragment`donation.account_id = ${accountId} AND donation.mode = ${mode}`,
    id,
  );
