import type { Kind } from "../../../domain/accounts/accounts.ts";
import type { Feature, StoreOperation } from "../../../domain/stores/stores.ts";

/** How the interface names trees and bottles. */
export const KIND_NAMES = {
  tree: {
    title: "Tree",
    plural: "trees",
    verb: "Plant",
    operation: "plant",
    feature: "treePlanting",
    path: "/app/api/plant",
    countField: "trees_planted",
    listField: "trees",
  },
  bottle: {
    title: "Plastic",
    plural: "bottles",
    verb: "Rescue",
    operation: "plastic",
    feature: "plasticRemoval",
    path: "/app/api/plastic",
    countField: "bottles_rescued",
    listField: "plastics",
  },
} as const satisfies Record<
  Kind,
  Readonly<Record<string, string>> & {
    readonly operation: StoreOperation;
    readonly feature: Feature;
  }
>;
