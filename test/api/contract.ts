import type { ExecutionContext, TestFn } from "ava";
import { z } from "zod";
import type { Kind } from "../../modules/records/owner.rules.ts";

/** The contract's names, repeated here so that the tests notice a change of the product's table. */
export const KIND_NAMES = {
  tree: {
    path: "/plant/trees",
    refundPath: "/refund/trees",
    total: "total_planted_trees",
    month: "total_planted_trees_month",
    details: "tree_details",
    refunded: "refunded_trees",
    idRequired: "tree id is required",
  },
  bottle: {
    path: "/rescue/plastic_bottles",
    refundPath: "/refund/plastic_bottles",
    total: "total_rescued_bottles",
    month: "total_rescued_bottles_month",
    details: "bottle_details",
    refunded: "refunded_bottles",
    idRequired: "bottle id is required",
  },
} as const;

const registrations = z.array(
  z.looseObject({ id: z.string(), count: z.number(), fractional_count: z.number() }),
);

/** Returns the registrations in a response. */
export const registrationsIn = (body: Readonly<Record<string, unknown>>, kind: Kind) =>
  registrations.parse(body[KIND_NAMES[kind].details]);

/** Returns the id of the first registration in a response. */
export const idIn = (body: Readonly<Record<string, unknown>>, kind: Kind): string => {
  const [registration] = registrationsIn(body, kind);
  if (!registration) {
    throw new Error("The response has no registration.");
  }
  return registration.id;
};

export const statusesOf = <Status>(responses: readonly { readonly status: Status }[]) =>
  responses.map(({ status }) => status);

/** Declares each test for trees and for bottles. */
export const eachKind =
  <Context>(test: TestFn<Context>) =>
  (title: string, run: (t: ExecutionContext<Context>, kind: Kind) => Promise<void>): void => {
    for (const kind of ["tree", "bottle"] as const) {
      test(`${kind}: ${title}`, (t) => run(t, kind));
    }
  };
