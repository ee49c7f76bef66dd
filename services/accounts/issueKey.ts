import { hash, randomBytes } from "node:crypto";
import type { CommonQueryMethods } from "slonik";
import { v7 as newId } from "uuid";
import type { Account } from "../../db/accounts/accounts.ts";
import { insertApiKey } from "../../db/accounts/apiKeys.ts";
import type { Mode } from "../../domain/accounts/accounts.ts";
import { KEY_PREFIX, keyHint } from "../../domain/accounts/apiKeys.ts";
import type { Actor } from "../../domain/accounts/audit.ts";
import type { Clock } from "../../domain/clock.ts";
import { recordAction } from "./recordAction.ts";

/** Issues another key to an account; its other keys stay valid. The key itself is not stored. */
export const issueKey = (
  {
    db,
    clock,
    actor,
  }: { readonly db: CommonQueryMethods; readonly clock: Clock; readonly actor: Actor },
  account: Pick<Account, "id" | "type">,
  mode: Mode,
): Promise<{ readonly id: string; readonly key: string }> =>
  db.transaction(async (transaction) => {
    const prefix = KEY_PREFIX[account.type][mode];
    const key = `${prefix}${randomBytes(32).toString("base64url")}`;
    const id = newId();
    const createdAt = clock.now();
    await insertApiKey(transaction, {
      id,
      accountId: account.id,
      mode,
      hash: hash("sha256", key, "buffer"),
      hint: keyHint(key, prefix),
      createdAt,
    });
    await recordAction(
      transaction,
      actor,
      { action: "key.issue", accountId: account.id, subject: id, details: { mode } },
      createdAt,
    );
    return { id, key };
  });
