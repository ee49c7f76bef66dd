import { randomInt } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { findDashboardSlug, insertDashboard } from "../../db/dashboard/dashboards.ts";
import type { Clock } from "../../domain/clock.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** Without letters that are taken for one another. */
const ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789";
const RANDOM_LETTERS = 8;
const NAME_LETTERS = 40;

const newSlug = (name: string): string => {
  const readable = name
    .normalize("NFKD")
    .toLowerCase()
    // An accented letter is the letter and a mark by now.
    .replaceAll(/\p{M}+/gu, "")
    .replaceAll(/[^a-z0-9]+/gu, "-")
    .slice(0, NAME_LETTERS)
    .replaceAll(/^-+|-+$/gu, "");
  const random = Array.from(
    { length: RANDOM_LETTERS },
    () => ALPHABET[randomInt(ALPHABET.length)],
  ).join("");
  return readable === "" ? random : `${readable}-${random}`;
};

/**
 * The name of an account's public page. It is made when it is first asked for and never changes, whatever becomes of the
 * account's name.
 */
export const getDashboardSlug = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  accountId: string,
): Promise<string> => {
  const known = await findDashboardSlug(db, accountId);
  if (known !== null) {
    return known;
  }
  const { name } = await getAccount(db, accountId);
  return insertDashboard(db, { accountId, slug: newSlug(name), createdAt: clock.now() });
};
