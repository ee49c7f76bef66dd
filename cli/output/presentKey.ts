import type { ApiKey } from "../../db/accounts/apiKeys.ts";
import type { Cell } from "./formatTable.ts";

/** The JSON form of a key; of the key itself it has only the hint. */
export const presentKey = (key: ApiKey) => ({
  id: key.id,
  name: key.name,
  mode: key.mode,
  scope: key.scope,
  hint: key.hint,
  created_at: key.createdAt,
  expires_at: key.expiresAt,
  last_used_at: key.lastUsedAt,
  revoked_at: key.revokedAt,
});

export const KEY_HEADINGS = [
  "key id",
  "name",
  "mode",
  "scope",
  "starts with",
  "created",
  "expires",
  "last used",
  "revoked",
];

export const keyRows = (keys: readonly ApiKey[]): readonly (readonly Cell[])[] =>
  keys.map((key) => [
    key.id,
    key.name,
    key.mode,
    key.scope,
    `${key.hint}…`,
    key.createdAt,
    key.expiresAt,
    key.lastUsedAt,
    key.revokedAt,
  ]);
