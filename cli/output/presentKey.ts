import type { ApiKey } from "../../db/accounts/apiKeys.ts";
import type { Cell } from "./formatTable.ts";

/** The JSON form of a key; of the key itself it has only the hint. */
export const presentKey = (key: ApiKey) => ({
  id: key.id,
  mode: key.mode,
  hint: key.hint,
  created_at: key.createdAt,
  revoked_at: key.revokedAt,
});

export const KEY_HEADINGS = ["key id", "mode", "starts with", "created", "revoked"];

export const keyRows = (keys: readonly ApiKey[]): readonly (readonly Cell[])[] =>
  keys.map(({ id, mode, hint, createdAt, revokedAt }) => [
    id,
    mode,
    `${hint}…`,
    createdAt,
    revokedAt,
  ]);
