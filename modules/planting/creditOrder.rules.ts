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
 * @returns the order's claims from now on: the same array if it keeps all
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
