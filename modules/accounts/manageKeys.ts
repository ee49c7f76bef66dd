import { randomBytes } from "node:crypto";
import type { Account } from "./accounts.sql.ts";
import { digestOf, findApiKey, insertApiKey, listApiKeys, revokeApiKey } from "./apiKeys.sql.ts";
import type { Mode } from "../records/owner.rules.ts";
import { KEY_PREFIX, isExpired, keyHint, requireFutureExpiry } from "./apiKeys.rules.ts";
import type { KeySettings } from "./apiKeys.rules.ts";
import { inKeyPrefix } from "../../runtime/cell.rules.ts";
import { readCell } from "../records/cells.sql.ts";
import type { InTransaction } from "../../runtime/context.ts";
import { requireFound } from "../../runtime/errors.rules.ts";
import { recordAction } from "./recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "./context.ts";

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

export type FirstKeys = { readonly apiKeyProd: string; readonly apiKeyTest: string };

export const issueFirstKeys = async (
  context: InTransaction<OperatorContext>,
  account: Pick<Account, "id" | "type">,
): Promise<FirstKeys> => {
  const live = await issueKey(context, account, "live");
  const test = await issueKey(context, account, "test");
  return { apiKeyProd: live.key, apiKeyTest: test.key };
};

/**
 * Revokes a key permanently; revoking it again changes nothing.
 * @returns `wasLast`: whether the account has no other valid key of the same mode
 * @throws DomainError record_not_found
 */
export const revokeKey = ({ db, clock, actor }: OperatorContext, id: string) =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const isNew = await revokeApiKey(transaction, id, now);
    const found = requireFound(
      await findApiKey(transaction, id),
      `key ${id} not found; see \`impact key list\``,
    );
    if (isNew) {
      await recordAction(transaction, actor, now, {
        action: "key.revoke",
        accountId: found.accountId,
        subject: id,
      });
    }
    const keys = await listApiKeys(transaction, found.accountId);
    return {
      key: found,
      wasLast: !keys.some(
        ({ mode, revokedAt, expiresAt }) =>
          mode === found.mode && revokedAt === null && !isExpired(expiresAt, now),
      ),
    };
  });
