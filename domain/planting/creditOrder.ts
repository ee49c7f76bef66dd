/** Trees of a partner's planting record, which the partner identifies by its reference. */
export type RecordedTrees = { readonly reference: string; readonly trees: number };

/** Trees of a record that are credited to an order. */
export type Claim = RecordedTrees & { readonly orderId: number };

const treesIn = (claims: readonly RecordedTrees[]): number =>
  claims.reduce((sum, { trees }) => sum + trees, 0);

/**
 * Decides with which recorded trees an order is credited. No tree is credited twice. An order that has all its trees
 * keeps them while their records exist; any other order is credited anew, because partners correct, merge and delete
 * records.
 * @param records are used up in this order
 * @param claims those of the order, and those of other orders on the same records
 * @returns the order's claims from now on
 */
export const creditOrder = (
  order: { readonly id: number; readonly treeCount: number },
  records: readonly RecordedTrees[],
  claims: readonly Claim[],
): readonly RecordedTrees[] => {
  const own = claims.filter(({ orderId }) => orderId === order.id);
  // Looked up, because a project may have tens of thousands of records, and as many claims on them.
  const references = new Set(records.map(({ reference }) => reference));
  if (treesIn(own) >= order.treeCount && own.every(({ reference }) => references.has(reference))) {
    // A concurrent poll may be about to report exactly these trees.
    return own.map(({ reference, trees }) => ({ reference, trees }));
  }
  const others = new Map<string, number>();
  for (const { reference, trees, orderId } of claims) {
    if (orderId !== order.id) {
      others.set(reference, (others.get(reference) ?? 0) + trees);
    }
  }
  const credited: RecordedTrees[] = [];
  let missing = order.treeCount;
  for (const { reference, trees: planted } of records) {
    const trees = Math.min(missing, planted - (others.get(reference) ?? 0));
    if (trees > 0) {
      credited.push({ reference, trees });
      missing -= trees;
    }
  }
  return credited;
};

/** Returns how an order's claims differ from those with which it is credited now. */
export const claimChanges = (
  own: readonly RecordedTrees[],
  credited: readonly RecordedTrees[],
): {
  /** The records on which the order has no claim any more. */
  readonly removed: readonly string[];
  readonly changed: readonly RecordedTrees[];
} => {
  const before = new Map(own.map(({ reference, trees }) => [reference, trees]));
  const kept = new Set(credited.map(({ reference }) => reference));
  return {
    removed: [...before.keys()].filter((reference) => !kept.has(reference)),
    changed: credited.filter(({ reference, trees }) => before.get(reference) !== trees),
  };
};
