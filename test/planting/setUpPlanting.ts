import type { DatabasePool } from "slonik";
import { listFacts } from "../../modules/planting/facts.sql.ts";
import type { StoredFact } from "../../modules/planting/facts.sql.ts";
import { listPlantingOrders } from "../../modules/planting/orders.sql.ts";
import type { Kind, Mode } from "../../modules/records/owner.rules.ts";
import type { PlantingOrder } from "../../modules/planting/orders.sql.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import type { PlantingFact } from "../../modules/planting/fact.rules.ts";
import { pollPlantingOrder, placePlantingOrder } from "../../modules/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../../modules/planting/createPlantingOrders.ts";
import { recordPlantingFacts } from "../../modules/planting/recordPlantingFacts.ts";
import { withdrawPlantingFact } from "../../modules/planting/withdrawPlantingFact.ts";
import {
  simulateAllocated,
  simulatePlanted,
  simulateVerified,
} from "../../modules/planting/simulated/simulatedFacts.ts";
import type { EvidenceContext } from "../../modules/planting/context.ts";
import { createTestOrganization, refundFor, registerFor } from "../support/factories.ts";
import { createMovableClock } from "../support/movableClock.ts";
import { mustExist } from "../../runtime/errors.rules.ts";
import { createTestPlanting, STAGE_MS } from "../support/planting.ts";

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
    const given = { clock, mode, kind, count, fractionalCount: 0.5, attribution: "spring" };
    return (await registerFor(db, organization.id, given)).id;
  };
  const createOrders = (maximumSimulated?: number): Promise<number> =>
    createPlantingOrders(deps, NEVER, maximumSimulated);
  const place = async (): Promise<void> => {
    for (const { id, publicId, partner: kind } of await orders()) {
      await placePlantingOrder(deps, id, NEVER);
      if (kind === "manual") {
        await recordPlantingFacts(deps, id, [fundsDistributed(publicId, clock.now())], "operator");
      }
    }
  };
  const createAndPlace = () => createOrders().then(place);
  const pass = async (durationMs: number): Promise<void> => {
    clock.set(new Date(clock.now().getTime() + durationMs).toISOString());
    for (const { id } of await orders()) {
      await pollPlantingOrder(deps, id, NEVER);
    }
  };
  return {
    clock,
    deps,
    organization,
    orders,
    firstOrder: async () => mustExist((await orders())[0], "There is an order."),
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
    refund: (id: string, count: number) =>
      refundFor(deps, { accountId: organization.id, mode: "live", kind: "tree" }, id, count),
    /** Places every order, as its workflow does; with the manual partner, as an operator does. */
    place,
    createAndPlace,
    /** Advances the clock and polls every order, as their workflows do. */
    pass,
    /** Has all trees planted and verified by the simulated partner. */
    plant: async (): Promise<void> => {
      await createAndPlace();
      await pass(3 * STAGE_MS);
    },
  };
};

const ACTOR = { kind: "operator", name: "ann", reason: "wrong" } as const;

/** Reports and withdraws facts of an order, as operators do. */
export const reportsOf = ({ deps }: PlantingSetup, order: PlantingOrder) => {
  const { db } = deps;
  const context = { ...deps, actor: ACTOR };
  /** Returns the number of a fact of a stage, the latest one in a state. */
  const numberOf = async (stage: PlantingFact["stage"], state: StoredFact["state"] = "accepted") =>
    (await listFacts(db, order.id)).findLast((fact) => fact.stage === stage && fact.state === state)
      ?.id ?? 0;
  return {
    order,
    allocated: simulateAllocated(order, new Date("2026-05-10T08:00:00.000Z")),
    planted: simulatePlanted(order, new Date("2026-06-01T08:00:00.000Z")),
    verified: simulateVerified(order, new Date("2026-06-20T08:00:00.000Z")),
    /** Returns the outcomes. */
    report: async (...facts: readonly PlantingFact[]): Promise<readonly string[]> =>
      (await recordPlantingFacts(deps, order.id, facts, "operator")).map(({ outcome }) => outcome),
    numberOf,
    states: async (): Promise<readonly string[]> =>
      (await listFacts(db, order.id)).map(({ stage, state }) => `${stage} ${state}`),
    withdraw: async (stage: PlantingFact["stage"]) =>
      withdrawPlantingFact(context, await numberOf(stage), "wrong"),
  };
};

/** Places orders of ten trees with the manual partner on 1 May 2026, and returns how to report facts of them on 30 June. */
export const placeOrders = async (db: DatabasePool, count = 1) => {
  const setup = await setUpPlanting(db, { partner: "manual" });
  await setup.order(...Array.from({ length: count }, () => 10));
  await setup.place();
  setup.clock.set("2026-06-30T10:00:00.000Z");
  const placed = (await setup.orders()).map((order) => reportsOf(setup, order));
  return { setup, placed, ...reportsOf(setup, await setup.firstOrder()) };
};
