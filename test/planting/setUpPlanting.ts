import type { DatabasePool } from "slonik";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import type { Kind, Mode } from "../../modules/records/owner.rules.ts";
import type { PlantingOrder } from "../../modules/planting/order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import type { PlantingFact } from "../../modules/planting/fact.rules.ts";
import { createBilling } from "../../modules/billing/createBilling.ts";
import { pollPlantingOrder, placePlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import { getDeploymentName } from "../../modules/billing/holdUsage.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { refundRegistration } from "../../modules/registrations/refundRegistration.ts";
import type { Refunded } from "../../modules/registrations/refundRegistration.ts";
import { createRegistrationWriter } from "../../modules/registrations/createRegistrationWriter.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { createTestOrganization, registrationOf } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { createTestPlanting } from "../support/planting.ts";
import { plantingOrderWorkflowId } from "../../runtime/temporalNames.rules.ts";

const NEVER = new AbortController().signal;

/** The fact that an operator reports after placing an order. */
export const fundsDistributed = (publicId: string, at: Date): PlantingFact => ({
  stage: "funds_distributed",
  occurred_at: at.toISOString(),
  partner_reference: publicId,
});

export type PlantingOptions = {
  readonly timeline?: TimelineShape;
  readonly partner?: "simulated" | "manual";
  readonly name?: string;
  /** The organization's and the clock's first time. */
  readonly start?: string;
};

export type PlantingSetup = Awaited<ReturnType<typeof setUpPlanting>>;

/** Creates an organization with planting on a clock that the test moves. */
export const setUpPlanting = async (
  db: DatabasePool,
  {
    timeline = "allocations",
    partner = "simulated",
    name = "Test Organization",
    start = "2026-05-01T10:00:00.000Z",
  }: PlantingOptions = {},
) => {
  const clock = createMovableClock(start);
  const planting = createTestPlanting({ partner, timeline });
  const organization = await createTestOrganization(db, { clock, name });
  const writer = createRegistrationWriter({ db, clock });
  const deps: EvidenceContext & { readonly db: DatabasePool } = {
    db,
    clock,
    planting,
    publicBaseUrl: () => "https://impact.example",
  };
  const orders = async (): Promise<readonly PlantingOrder[]> =>
    (await listPlantingOrders(db, { accountId: organization.id, limit: 1000 })).toReversed();
  const register = async (
    count: number,
    { mode = "live", kind = "tree" }: { readonly mode?: Mode; readonly kind?: Kind } = {},
  ): Promise<string> => {
    const { registration } = await writer.register(
      registrationOf(organization.id, {
        mode,
        kind,
        count,
        fractionalCount: 0.5,
        attribution: "spring",
      }),
    );
    return registration.id;
  };
  const createOrders = (options?: Parameters<typeof createPlantingOrders>[2]): Promise<number> =>
    createPlantingOrders(deps, NEVER, options);
  return {
    clock,
    deps,
    organization,
    orders,
    /** Returns the id of an order's workflow. */
    workflowIdOf: async (orderId: number): Promise<string> =>
      plantingOrderWorkflowId(await getDeploymentName({ db, clock }), orderId),
    register,
    createOrders,
    /** Registers trees, and creates an order of each registration. */
    order: async (...counts: readonly number[]): Promise<void> => {
      for (const count of counts) {
        await register(count);
        await createOrders();
      }
    },
    /** Refunds trees of a registration of a production key. */
    refund: (id: string, count: number): Promise<Refunded> =>
      refundRegistration(
        { ...deps, billing: createBilling({ db, stripe: null }) },
        { accountId: organization.id, mode: "live", kind: "tree" },
        { id, count, reason: null, idempotencyKey: null },
      ),
    /** Places every order, as its workflow does; with the manual partner, as an operator does. */
    place: async (): Promise<void> => {
      for (const { id, publicId, partner: kind } of await orders()) {
        await placePlantingOrder(deps, id, NEVER);
        if (kind === "manual") {
          await recordPlantingFacts(
            deps,
            id,
            [fundsDistributed(publicId, clock.now())],
            "operator",
          );
        }
      }
    },
    /** Advances the clock and polls every order, as their workflows do. */
    pass: async (durationMs: number): Promise<void> => {
      clock.set(new Date(clock.now().getTime() + durationMs).toISOString());
      for (const { id } of await orders()) {
        await pollPlantingOrder(deps, id, NEVER);
      }
    },
  };
};
