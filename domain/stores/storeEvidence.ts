/** Which tree registration a store asks evidence of; null chooses nothing, and all that is chosen must hold. */
export type EvidenceSelection = {
  readonly id: string | null;
  /** The newest one up to here; the instant in the database's own precision. */
  readonly upTo: { readonly instant: string; readonly isIncluded: boolean } | null;
  /** The public id of the planting order. */
  readonly projectPublicId: string | null;
  /** Where the trees stand, whatever the case. */
  readonly region: string | null;
};
