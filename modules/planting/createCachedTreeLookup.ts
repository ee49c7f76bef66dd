import { LRUCache } from "lru-cache";
import { listCachedTrees } from "./treeEvidence.sql.ts";
import type { CachedTree } from "./treeEvidence.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { isUuid } from "../records/fields.rules.ts";
import { isSimulated } from "./order.rules.ts";
import { isExpectedToStay } from "./timeline.rules.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import type { EvidenceContext } from "./context.ts";
import type { TreeEvidenceResponse } from "./readTreeEvidence.ts";

type TreeSelection = AccountMode & { readonly id: string };

/** Returns the cached evidence of a tree; null if there is none, or if the id is not the registration's own. */
type FindCachedTree = (selection: TreeSelection) => Promise<TreeEvidenceResponse | null>;

type KnownTree = {
  readonly version: string;
  readonly response: TreeEvidenceResponse;
};

/** Of the texts that a process has in memory; most have a few thousand characters. */
const MAXIMUM_CHARACTERS = 8 * 1024 * 1024;

const keyOf = ({ accountId, mode, id }: TreeSelection): string =>
  `${accountId} ${mode} ${id.toLowerCase()}`;

/**
 * Creates a lookup of trees in batches. Every process asks the database, so that all return the same text, and none returns
 * one that has just become stale. The text itself is read only if this process does not have it.
 */
export const createCachedTreeLookup = ({
  db,
  clock,
  publicBaseUrl,
}: Pick<EvidenceContext, "db" | "clock" | "publicBaseUrl">): FindCachedTree => {
  const known = new LRUCache<string, KnownTree>({
    maxSize: MAXIMUM_CHARACTERS,
    sizeCalculation: ({ response }) => response.body.length + 1,
  });

  /**
   * Returns the response of a row, and keeps it.
   * @param earlier what was known when the query began: another query may have ended meanwhile
   */
  const resolve = (
    key: string,
    tree: CachedTree,
    earlier: KnownTree | undefined,
  ): TreeEvidenceResponse => {
    const { version } = tree;
    const isComplete = isExpectedToStay(tree);
    if (earlier?.version === version && earlier.response.isComplete === isComplete) {
      return earlier.response;
    }
    const body = tree.body ?? earlier?.response.body;
    if (body === undefined) {
      throw new Error("The database left out the text of a version that is not known.");
    }
    const response = {
      body,
      storedAt: tree.storedAt,
      isComplete,
      isSimulated: isSimulated(tree.partner),
    };
    known.set(key, { version, response });
    return response;
  };

  const lookUp = createLookups(async (keys) => {
    const earlier = keys.map((key) => known.get(key));
    const trees = keys.map((key, index) => {
      const [accountId = "", mode, id = ""] = key.split(" ");
      const knownVersion = earlier[index]?.version ?? null;
      return { accountId, mode: mode === "live" ? "live" : "test", id, knownVersion } as const;
    });
    const cached = await listCachedTrees(db, trees, publicBaseUrl(), clock.now());
    const found = new Map<string, TreeEvidenceResponse>();
    for (const tree of cached) {
      const key = keys[tree.position] ?? "";
      found.set(key, resolve(key, tree, earlier[tree.position]));
    }
    return found;
  });
  return (selection) => (isUuid(selection.id) ? lookUp(keyOf(selection)) : Promise.resolve(null));
};
