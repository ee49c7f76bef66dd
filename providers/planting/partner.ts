import type {
  PartnerKind,
  PlantingOrder,
  PlantingStage,
  TimelineShape,
} from "../../domain/planting/order.ts";
import type { PlantingFact } from "../../domain/planting/fact.ts";

/** What a partner is told and asked about. */
export type PartnerOrder = Pick<
  PlantingOrder,
  "id" | "publicId" | "buyerName" | "treeCount" | "createdAt" | "partnerReference"
> & {
  /** The stages in force, with their instants. */
  readonly reached: readonly { readonly stage: PlantingStage; readonly occurredAt: Date }[];
};

/** What a look at an order has brought. */
type PartnerUpdates = {
  readonly facts: readonly PlantingFact[];
  /** How long to wait before the next look; null for the deployment's usual interval. */
  readonly nextPollMs: number | null;
};

/**
 * A planting partner. Both calls may be repeated at any time and fail when the partner cannot be reached; facts that are
 * known already do no harm.
 */
export type PlantingPartner = {
  readonly kind: PartnerKind;
  /** Its neutral name in evidence. */
  readonly name: string;
  readonly timeline: TimelineShape;
  /** Whether looking brings the verification too; elsewhere it comes by report, if it ever comes. */
  readonly isVerificationPolled: boolean;
  /** Hands an order over; the answer is the partner's own name for it, null where a person hands it over and reports it. */
  readonly placeOrder: (order: PartnerOrder, signal: AbortSignal) => Promise<string | null>;
  /** What has happened to an order that is not on record yet. */
  readonly fetchUpdates: (
    order: PartnerOrder,
    now: Date,
    signal: AbortSignal,
  ) => Promise<PartnerUpdates>;
};
