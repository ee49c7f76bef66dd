/** Trees of a partner's planting record, which the partner identifies by its reference. */
export type RecordedTrees = { readonly reference: string; readonly trees: number };

export const treesIn = (claims: readonly { readonly trees: number }[]): number =>
  claims.reduce((sum, { trees }) => sum + trees, 0);

const byReference = (records: readonly RecordedTrees[]): ReadonlyMap<string, number> =>
  new Map(records.map(({ reference, trees }) => [reference, trees]));

/**
 * Decides with which recorded trees an order is credited. No tree is credited twice. An order that has all its trees
 * keeps them while their records exist; any other order is credited anew, because partners correct, merge and delete
 * records.
 * @param records are used up in this order
 * @param own the order's claims
 * @param credited how many trees of the records all orders have together
 * @returns the order's claims from now on
 */
export const creditOrder = (
  order: { readonly treeCount: number },
  records: readonly RecordedTrees[],
  own: readonly RecordedTrees[],
  credited: readonly RecordedTrees[],
): readonly RecordedTrees[] => {
  // Looked up, because a project may have tens of thousands of records, and as many claims on them.
  const references = new Set(records.map(({ reference }) => reference));
  if (treesIn(own) >= order.treeCount && own.every(({ reference }) => references.has(reference))) {
    // A concurrent poll may be about to report exactly these trees.
    return own;
  }
  const ownTrees = byReference(own);
  const allTrees = byReference(credited);
  const claims: RecordedTrees[] = [];
  let missing = order.treeCount;
  for (const { reference, trees: planted } of records) {
    const others = (allTrees.get(reference) ?? 0) - (ownTrees.get(reference) ?? 0);
    const trees = Math.min(missing, planted - others);
    if (trees > 0) {
      claims.push({ reference, trees });
      missing -= trees;
    }
  }
  return claims;
};

/** How an order's claims change. */
export type ClaimChanges = {
  /** The records on which the order has no claim any more. */
  readonly removed: readonly string[];
  readonly changed: readonly RecordedTrees[];
  /** By how many trees the claim on each of these records grows; less than 0 if it shrinks. */
  readonly differences: readonly RecordedTrees[];
};

/** Returns how an order's claims differ from those with which it is credited now. */
export const claimChanges = (
  own: readonly RecordedTrees[],
  credited: readonly RecordedTrees[],
): ClaimChanges => {
  const before = byReference(own);
  const after = byReference(credited);
  const removed = own.filter(({ reference }) => !after.has(reference));
  const changed = credited.filter(({ reference, trees }) => before.get(reference) !== trees);
  return {
    removed: removed.map(({ reference }) => reference),
    changed,
    differences: [
      ...removed.map(({ reference, trees }) => ({ reference, trees: -trees })),
      ...changed.map(({ reference, trees }) => ({
        reference,
        trees: trees - (before.get(reference) ?? 0),
      })),
    ],
  };
};
