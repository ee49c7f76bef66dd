import type { Kind } from "../../modules/records/owner.rules.ts";

/** How the standalone interface names trees and bottles; everything else is the same for both. */
export const KIND_NAMES = {
  tree: {
    noun: "tree",
    title: "Tree",
    plural: "trees",
    registerPath: "/plant/trees",
    refundPath: "/refund/trees",
    totalField: "total_planted_trees",
    monthField: "total_planted_trees_month",
    detailsField: "tree_details",
    refundedField: "refunded_trees",
  },
  bottle: {
    noun: "bottle",
    title: "Bottle",
    plural: "bottles",
    registerPath: "/rescue/plastic_bottles",
    refundPath: "/refund/plastic_bottles",
    totalField: "total_rescued_bottles",
    monthField: "total_rescued_bottles_month",
    detailsField: "bottle_details",
    refundedField: "refunded_bottles",
  },
} as const satisfies Record<Kind, Readonly<Record<string, string>>>;

export type KindNames = (typeof KIND_NAMES)[Kind];
