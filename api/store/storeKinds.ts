import type { Kind } from "../../modules/records/owner.rules.ts";
import { REGISTER_OPERATIONS } from "../../modules/records/idempotencyKeys.rules.ts";
import type { StoreOperation } from "../../modules/stores/stores.rules.ts";

export const KIND_NAMES = {
  tree: {
    title: "Tree",
    plural: "trees",
    verb: "Plant",
    operation: REGISTER_OPERATIONS.tree,
    refundType: "tree",
    path: "/app/api/plant",
    countField: "trees_planted",
    listField: "trees",
    statsField: "trees",
  },
  bottle: {
    title: "Plastic",
    plural: "bottles",
    verb: "Rescue",
    operation: REGISTER_OPERATIONS.bottle,
    refundType: "plastic",
    path: "/app/api/plastic",
    countField: "bottles_rescued",
    listField: "plastics",
    statsField: "plastic_bottles",
  },
} as const satisfies Record<
  Kind,
  Readonly<Record<string, string>> & {
    readonly operation: StoreOperation;
  }
>;
