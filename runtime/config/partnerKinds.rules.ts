/* The choices of settings about planting that are stored with an order as well. */

/** What a partner reports: allocations and planting, or only verified planting sessions. */
export const TIMELINE_SHAPES = ["allocations", "sessions"] as const;
export type TimelineShape = (typeof TIMELINE_SHAPES)[number];

export const PARTNER_KINDS = ["simulated", "manual", "treemapper"] as const;
export type PartnerKind = (typeof PARTNER_KINDS)[number];
