import type { RecordedTrees } from "./claims.sql.ts";
import type { PlantingFact } from "./fact.rules.ts";
import type { ReachedStage } from "./order.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import type { PartnerKind, TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";

type PartnerOrder = Pick<PlantingOrder, "publicId" | "timeline" | "treeCount" | "createdAt"> & {
  readonly reached: readonly ReachedStage[];
};

type Poll = {
  readonly now: Date;
  readonly signal: AbortSignal;
  /**
   * Credits the polled order with trees of records that no other order has, in their order, and returns all that it is
   * credited with. It loses its trees of other records.
   */
  readonly claimTrees: (records: readonly RecordedTrees[]) => Promise<readonly RecordedTrees[]>;
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
  readonly fetchUpdates: (
    order: PartnerOrder,
    poll: Poll,
  ) => Promise<{
    readonly facts: readonly PlantingFact[];
    /** The time until the next poll; null for the configured interval. */
    readonly nextPollMs: number | null;
  }>;
};
