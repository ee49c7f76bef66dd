import type { FragmentSqlToken } from "slonik";
import type { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind } from "../records/owner.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";

/** What a store pays for a unit of each kind. */
export const priceFields = {
  treePriceCents: safeInteger,
  bottlePriceCents: safeInteger,
} satisfies Record<`${Kind}PriceCents`, z.ZodType>;

export const priceColumn = (kind: Kind): `${Kind}_price_cents` => `${kind}_price_cents`;

/** Joins what is selected or inserted for each kind. */
export const ofEachKind = (partOf: (kind: Kind) => FragmentSqlToken): FragmentSqlToken =>
  sql.fragment`${sql.join(KINDS.map(partOf), sql.fragment`, `)}`;

/** The columns of `priceFields`. */
export const priceColumns = ofEachKind(
  (kind) =>
    sql.fragment`${sql.identifier(["store", priceColumn(kind)])} AS ${sql.identifier([`${kind}PriceCents`])}`,
);
