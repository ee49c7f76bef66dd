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
  const isOnRecord = ({ reference }: Claim): boolean =>
    records.some((record) => record.reference === reference);
  if (treesIn(own) >= order.treeCount && own.every(isOnRecord)) {
    // A concurrent poll may be about to report exactly these trees.
    return own.map(({ reference, trees }) => ({ reference, trees }));
  }
  const credited: RecordedTrees[] = [];
  for (const { reference, trees: planted } of records) {
    const others = claims.filter(
      (claim) => claim.reference === reference && claim.orderId !== order.id,
    );
    const trees = Math.min(order.treeCount - treesIn(credited), planted - treesIn(others));
    if (trees > 0) {
      credited.push({ reference, trees });
    }
  }
  return credited;
};
