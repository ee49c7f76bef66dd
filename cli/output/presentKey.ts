import type { ApiKey } from "../../db/accounts/apiKeys.ts";
import type { Columns } from "./print.ts";

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

export const KEY_COLUMNS: Columns<ApiKey> = {
  "key id": (key) => key.id,
  name: (key) => key.name,
  mode: (key) => key.mode,
  scope: (key) => key.scope,
  "starts with": (key) => `${key.hint}…`,
  created: (key) => key.createdAt,
  expires: (key) => key.expiresAt,
  "last used": (key) => key.lastUsedAt,
  revoked: (key) => key.revokedAt,
};
