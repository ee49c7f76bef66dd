import { randomBytes } from "node:crypto";
import type { Account } from "./accounts.sql.ts";
import { digestOf, insertApiKey } from "./apiKeys.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import { KEY_PREFIX, keyHint, requireFutureExpiry } from "./apiKeys.rules.ts";
import type { KeySettings } from "./apiKeys.rules.ts";
import { inKeyPrefix } from "../../runtime/cell.rules.ts";
import { readCell } from "../records/cells.sql.ts";
import type { InTransaction } from "../../runtime/context.ts";
import { recordAction } from "./recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "./context.ts";

/** The settings of the keys that an account is created with. */
const INITIAL: KeySettings = { name: "initial", scope: "write", expiresAt: null };

/**
 * Issues another key to an account; its other keys stay valid. The key itself is not stored.
 * @throws DomainError request_invalid if the key would have expired already
 */
export const issueKey = (
  { db, clock, actor }: InTransaction<OperatorContext>,
  account: Pick<Account, "id" | "type">,
  mode: Mode,
  settings: KeySettings = INITIAL,
): Promise<{ readonly id: string; readonly key: string }> =>
  db.transaction(async (transaction) => {
    const prefix = inKeyPrefix(KEY_PREFIX[account.type][mode], await readCell(transaction));
    const key = `${prefix}${randomBytes(32).toString("base64url")}`;
    const id = newId();
    const createdAt = clock.now();
    requireFutureExpiry(settings.expiresAt, createdAt);
    await insertApiKey(transaction, {
      id,
      accountId: account.id,
      mode,
      digest: digestOf(key),
      hint: keyHint(key, prefix),
      ...settings,
      createdAt,
    });
    await recordAction(transaction, actor, createdAt, {
      action: "key.issue",
      accountId: account.id,
      subject: id,
      details: { mode, ...settings },
    });
    return { id, key };
  });

/** The keys that an account is created with, one for each mode. */
export type FirstKeys = { readonly apiKeyProd: string; readonly apiKeyTest: string };

export const issueFirstKeys = async (
  context: InTransaction<OperatorContext>,
  account: Pick<Account, "id" | "type">,
): Promise<FirstKeys> => {
  const live = await issueKey(context, account, "live");
  const test = await issueKey(context, account, "test");
  return { apiKeyProd: live.key, apiKeyTest: test.key };
};
