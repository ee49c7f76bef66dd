import type { CommonQueryMethods } from "slonik";
import type { ApiKey } from "../../db/accounts/apiKeys.ts";
import { listApiKeys, revokeApiKey } from "../../db/accounts/apiKeys.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";

export type RevokedKey = {
  readonly key: ApiKey;
  /** Whether the account has no other valid key of the same mode. */
  readonly wasLast: boolean;
};

/**
 * Revokes a key permanently; revoking it again changes nothing.
 * @throws DomainError record_not_found
 */
export const revokeKey = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  id: string,
): Promise<RevokedKey> => {
  const key = await revokeApiKey(db, id, clock.now());
  if (!key) {
    throw new DomainError("record_not_found", `key ${id} not found`);
  }
  const keys = await listApiKeys(db, key.accountId);
  return {
    key,
    wasLast: !keys.some(({ mode, revokedAt }) => mode === key.mode && revokedAt === null),
  };
};
