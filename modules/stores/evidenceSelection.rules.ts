/** Which tree registration a store wants evidence of. All conditions must hold; null is no condition. */
export type EvidenceSelection = {
  readonly id: string | null;
  /** The newest registration before this time. */
  readonly until: Date | null;
  /** The public id of the planting order. */
  readonly projectPublicId: string | null;
  /** The normalized region of the planting site, in any case. */
  readonly region: string | null;
};
