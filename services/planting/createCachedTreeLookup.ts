import { listCachedTrees } from "../../db/planting/treeEvidence.ts";
import type { CachedTree } from "../../db/planting/treeEvidence.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import { isUuid } from "../../domain/fields.ts";
import { isSimulated } from "../../domain/planting/order.ts";
import { createBatchedLookup } from "../createBatchedLookup.ts";
import type { EvidenceDependencies } from "./cacheEvidence.ts";
import type { TreeEvidenceResponse } from "./readTreeEvidence.ts";

/** Returns the cached evidence of a tree; null if there is none, or if the id is not the registration's own. */
export type FindCachedTree = (
  selection: AccountMode & { readonly id: string },
) => Promise<TreeEvidenceResponse | null>;

const keyOf = ({ accountId, mode, id }: Pick<CachedTree, "accountId" | "mode" | "id">): string =>
  `${accountId} ${mode} ${id.toLowerCase()}`;

/**
 * Creates a lookup that runs one query at a time, for all trees that were requested meanwhile. Every process reads the
 * database, so that all return the same text, and none returns one that has just become stale.
 */
export const createCachedTreeLookup = ({
  db,
  clock,
  publicBaseUrl,
}: Pick<EvidenceDependencies, "db" | "clock" | "publicBaseUrl">): FindCachedTree => {
  const lookUp = createBatchedLookup(
    async (keys) => {
      const trees = keys.map((key) => {
        const [accountId = "", mode, id = ""] = key.split(" ");
        return { accountId, mode: mode === "live" ? "live" : "test", id } as const;
      });
      const cached = await listCachedTrees(db, trees, publicBaseUrl(), clock.now());
      return new Map(cached.map((tree) => [keyOf(tree), tree]));
    },
    { isFresh: true },
  );
  return async (selection) => {
    const tree = isUuid(selection.id) ? await lookUp(keyOf(selection)) : null;
    return (
      tree && {
        body: tree.body,
        storedAt: tree.storedAt,
        isComplete: tree.isFinished,
        isSimulated: isSimulated(tree.partner),
      }
    );
  };
};
