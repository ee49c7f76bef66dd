import type { ApiKey } from "./apiKeys.sql.ts";
import { findApiKey, listApiKeys, revokeApiKey } from "./apiKeys.sql.ts";
import { isExpired } from "./apiKeys.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { recordAction } from "./recordAction.ts";
import type { OperatorContext } from "./context.ts";

type RevokedKey = {
  readonly key: ApiKey;
  /** Whether the account has no other valid key of the same mode. */
  readonly wasLast: boolean;
};

/**
 * Revokes a key permanently; revoking it again changes nothing.
 * @throws DomainError record_not_found
 */
export const revokeKey = ({ db, clock, actor }: OperatorContext, id: string): Promise<RevokedKey> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const isNew = await revokeApiKey(transaction, id, now);
    const found = await findApiKey(transaction, id);
    if (!found) {
      throw new DomainError("record_not_found", `key ${id} not found; see \`impact key list\``);
    }
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
