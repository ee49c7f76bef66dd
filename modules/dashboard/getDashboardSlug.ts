import { randomInt } from "node:crypto";
import { findDashboardSlug, insertDashboard } from "./dashboards.sql.ts";
import { getAccount } from "../accounts/getAccount.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";

/** Without letters and digits that look alike. */
const ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789";
const RANDOM_LETTERS = 8;
const NAME_LETTERS = 40;

const newSlug = (name: string): string => {
  const readable = name
    .normalize("NFKD")
    .toLowerCase()
    // NFKD has split an accented letter into the letter and a mark.
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

/** Returns the slug of an account's dashboard, creating it on first use. It never changes, even if the account is renamed. */
export const getDashboardSlug = async (
  { db, clock }: InTransaction<Context>,
  accountId: string,
): Promise<string> => {
  const known = await findDashboardSlug(db, accountId);
  if (known !== null) {
    return known;
  }
  const { name } = await getAccount(db, accountId);
  return insertDashboard(db, { accountId, slug: newSlug(name), createdAt: clock.now() });
};
