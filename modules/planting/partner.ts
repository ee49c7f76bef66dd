import type { RecordedTrees } from "./creditOrder.rules.ts";
import type { PlantingFact } from "./fact.rules.ts";
import type { PlantingOrder, PlantingStage } from "./order.rules.ts";
import type { PartnerKind, TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";

/** An order as its partner sees it. */
export type PartnerOrder = Pick<
  PlantingOrder,
  "id" | "publicId" | "buyerName" | "timeline" | "treeCount" | "createdAt" | "partnerReference"
> & {
  /** The stages that the order has reached. */
  readonly reached: readonly { readonly stage: PlantingStage; readonly occurredAt: Date }[];
};

/** The trees of a partner's records that are credited to orders. */
export type Claims = {
  /** Lists how many of each record are credited to any order; records without such trees are left out. */
  readonly listCredited: (references: readonly string[]) => Promise<readonly RecordedTrees[]>;
  /**
   * Credits the polled order with trees of records, in their order, and returns all its claims. It loses its trees of other
   * records.
   * @param choose returns the records for what the order is credited with, which another poll of it may have changed just
   *   now; it may be called again
   */
  readonly claimTrees: (
    choose: (own: readonly RecordedTrees[]) => readonly RecordedTrees[],
  ) => Promise<readonly RecordedTrees[]>;
};

/** What a poll may use. */
type Poll = {
  readonly now: Date;
  readonly signal: AbortSignal;
  readonly claims: Claims;
};

/** The result of a poll. */
type PartnerUpdates = {
  readonly facts: readonly PlantingFact[];
  /** The time until the next poll; null for the configured interval. */
  readonly nextPollMs: number | null;
};

/** A planting partner. Its calls may be repeated at any time, and fail if the partner cannot be reached. */
export type PlantingPartner = {
  readonly kind: PartnerKind;
  /** Its neutral name in evidence. */
  readonly name: string;
  readonly timeline: TimelineShape;
  /** Whether polls return verifications; otherwise the partner or an operator reports them, if at all. */
  readonly isVerificationPolled: boolean;
  /** Places an order and returns the partner's reference for it; null if an operator has to place it. */
  readonly placeOrder: (order: PartnerOrder, signal: AbortSignal) => Promise<string | null>;
  /** Fetches facts of an order. They may include recorded ones. */
  readonly fetchUpdates: (order: PartnerOrder, poll: Poll) => Promise<PartnerUpdates>;
};
