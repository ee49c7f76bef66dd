import { digestOf, findApiKeyByDigest, insertApiKey } from "../accounts/apiKeys.sql.ts";
import type { AccountType, Mode } from "../records/owner.rules.ts";
import {
  keyHint,
  isExpired,
  requireFutureExpiry,
  requireImportableKey,
} from "../accounts/apiKeys.rules.ts";
import type { KeySettings } from "../accounts/apiKeys.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { newId } from "../../runtime/newId.ts";
import type { OperatorContext } from "../accounts/context.ts";

type DigestedKey = { readonly digest: string; readonly hint: string };

/** @throws DomainError request_invalid if the key cannot be imported */
export const digestImportableKey = (key: string, type: AccountType, mode: Mode): DigestedKey => {
  requireImportableKey(key, type, mode);
  return { digest: digestOf(key), hint: keyHint(key) };
};

/**
 * Makes a key of another system, or of another cell, valid for an account.
 * @returns its id, and whether the account did not have it
 * @throws DomainError request_invalid if the key belongs to another account or mode, was revoked or has expired
 */
export const importKey = (
  { db, clock, actor }: OperatorContext,
  account: { readonly id: string },
  mode: Mode,
  { digest, hint }: DigestedKey,
  settings: KeySettings,
): Promise<{ readonly id: string; readonly isNew: boolean }> =>
  db.transaction(async (transaction) => {
    const createdAt = clock.now();
    requireFutureExpiry(settings.expiresAt, createdAt);
    const known = await findApiKeyByDigest(transaction, digest);
    if (known) {
      if (known.accountId !== account.id) {
        throw invalidRequest("the key belongs to another account");
      }
      if (known.mode !== mode) {
        throw invalidRequest(`the account has this key in ${known.mode} mode`);
      }
      if (known.revokedAt !== null) {
        throw invalidRequest("the key was revoked here");
      }
      if (isExpired(known.expiresAt, createdAt)) {
        throw invalidRequest("the key has expired here");
      }
      return { id: known.id, isNew: false };
    }
    const key = { id: newId(), accountId: account.id, mode, digest, hint, createdAt };
    await insertApiKey(transaction, { ...key, ...settings });
    await recordAction(transaction, actor, createdAt, {
      action: "import.key",
      accountId: account.id,
      subject: key.id,
      details: { mode, ...settings },
    });
    return { id: key.id, isNew: true };
  });
