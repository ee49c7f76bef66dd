import type { DatabaseTransactionConnection } from "slonik";
import { deleteSummaries } from "./summary.sql.ts";
import type { StoredFact } from "./facts.sql.ts";
import { findFactOrder, listFacts, reconsiderFacts, withdrawFact } from "./facts.sql.ts";
import { reopenPlantingOrder } from "./orderWorkflows.sql.ts";
import { lockPlantingOrder } from "./orders.sql.ts";
import { restoreSites } from "./sites.sql.ts";
import type { Actor } from "../accounts/audit.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { PlantingReport } from "./fact.rules.ts";
import { IMPORTED_PARTNER, latestStage, requireOrder } from "./order.rules.ts";
import type { OrderStage, PlantingOrder } from "./order.rules.ts";
import type { PartnerKind } from "../../runtime/config/partnerKinds.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { RecordedFact } from "./settleFacts.ts";
import { runAndRollBack } from "../../db/runAndRollBack.ts";
import {
  recordMilestones,
  changeTimeline,
  recordFacts,
  settleFacts,
  storeProgress,
} from "./settleFacts.ts";

type WithdrawalContext = OperatorContext<Extract<Actor, { readonly kind: "operator" }>>;

/** What a correction changed, or would change. */
export type CorrectedOrder = {
  readonly order: string;
  readonly stageBefore: OrderStage;
  readonly stageAfter: OrderStage;
  /** The facts with another state than before. */
  readonly changes: readonly {
    readonly fact: number;
    readonly stage: StoredFact["stage"];
    readonly before: StoredFact["state"];
    readonly after: StoredFact["state"];
  }[];
  /** The outcomes of the replacement's facts. */
  readonly replacement: readonly RecordedFact[];
};

const factNotFound = (factId: number): DomainError =>
  new DomainError(
    "record_not_found",
    `fact ${factId} not found; see \`impact evidence order show\``,
  );

const getFact = (facts: readonly StoredFact[], factId: number): StoredFact => {
  const fact = facts.find(({ id }) => id === factId);
  if (!fact) {
    throw factNotFound(factId);
  }
  return fact;
};

/** Lets the accepted facts of an order take effect anew, as if nothing had been reached. */
const replay = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
): Promise<PlantingOrder> => {
  await reconsiderFacts(transaction, order.id, null);
  return settleFacts(transaction, {
    ...order,
    stage: "created",
    partnerReference: null,
    siteShares: [],
    plantedAt: null,
    verifiedAt: null,
  });
};

/** Decides an order's contradictions again, the latest first: the fact that they contradicted may be withdrawn. */
const reconsiderContradictions = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
): Promise<PlantingOrder> => {
  let order = before;
  const contradictions = (await listFacts(transaction, order.id)).filter(
    ({ state }) => state === "contradiction",
  );
  for (const { id } of contradictions.toReversed()) {
    await reconsiderFacts(transaction, order.id, id);
    order = await settleFacts(transaction, order);
  }
  return order;
};

/** Runs a correction of a fact in a transaction that holds its order's lock, and stores what it changes of the order. */
const correctOrder = async (
  { db, clock, actor }: WithdrawalContext,
  factId: number,
  isDryRun: boolean,
  correction: {
    readonly action: "evidence.withdraw" | "evidence.reinstate";
    readonly run: (
      transaction: DatabaseTransactionConnection,
      order: PlantingOrder,
      fact: StoredFact,
      now: Date,
    ) => Promise<{
      readonly order: PlantingOrder;
      readonly replacement: readonly RecordedFact[];
    }>;
  },
): Promise<CorrectedOrder> => {
  const orderId = await findFactOrder(db, factId);
  if (orderId === null) {
    throw factNotFound(factId);
  }
  const correct = async (transaction: DatabaseTransactionConnection): Promise<CorrectedOrder> => {
    const before = requireOrder(await lockPlantingOrder(transaction, orderId));
    const now = clock.now();
    const factsBefore = await listFacts(transaction, orderId);
    const fact = getFact(factsBefore, factId);
    const { order, replacement } = await correction.run(transaction, before, fact, now);
    const changes = (await listFacts(transaction, orderId)).flatMap((after) => {
      const state = factsBefore.find(({ id }) => id === after.id)?.state;
      return state === undefined || state === after.state
        ? []
        : [{ fact: after.id, stage: after.stage, before: state, after: after.state }];
    });
    if (order !== before) {
      await storeProgress(transaction, before, order);
      // An order without planted trees, too, may have changed the site of others.
      await deleteSummaries(transaction, null);
      await recordMilestones(transaction, factsBefore, order, now);
      await reopenPlantingOrder(transaction, orderId);
    }
    // A replacement that only waits changes neither other facts nor the order, yet it is stored.
    if (changes.length > 0 || order !== before || replacement.length > 0) {
      await recordAction(transaction, actor, now, {
        action: correction.action,
        accountId: before.accountId,
        subject: String(orderId),
        details: { fact: factId, stage: fact.stage, changes, replacement },
      });
    }
    return {
      order: before.publicId,
      stageBefore: before.stage,
      stageAfter: order.stage,
      changes,
      replacement,
    };
  };
  return isDryRun ? runAndRollBack(db, correct) : db.transaction(correct);
};

/**
 * Rejects a correction after which the next poll would place the order again: the date would be later than those of the
 * waiting facts of later stages, which would become contradictions.
 */
const requireStillPlaced = async (
  transaction: DatabaseTransactionConnection,
  { partner, stage: stageBefore }: PlantingOrder,
  { id, stage: stageAfter }: PlantingOrder,
  factId: number,
): Promise<void> => {
  const isPolled = partner !== ("manual" satisfies PartnerKind) && partner !== IMPORTED_PARTNER;
  if (!isPolled || stageBefore === "created" || stageAfter !== "created") {
    return;
  }
  // The facts that were accepted before the withdrawal wait now, too.
  const waiting = await listFacts(transaction, id, ["waiting"]);
  const latest = latestStage(waiting.map(({ stage }) => stage));
  if (latest !== "created") {
    throw invalidRequest(
      `the order has a fact of stage ${latest}, and would be placed again, at a later time, if fact ${factId} were withdrawn; pass another funds_distributed with --replacement`,
    );
  }
};

/**
 * Rejects a withdrawal that would leave a verified order without its planting. A verification alone counts as planted on its
 * day, although the partner has not reported that day.
 */
const requireStillPlanted = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  withdrawn: StoredFact,
): Promise<void> => {
  if (withdrawn.stage !== "planted" || withdrawn.state !== "accepted") {
    return;
  }
  const accepted = await listFacts(transaction, order.id, ["accepted"]);
  const verified = accepted.find(({ stage }) => stage === "planted_and_verified");
  if (verified && !accepted.some(({ stage }) => stage === "planted")) {
    throw invalidRequest(
      `fact ${verified.id} verifies what fact ${withdrawn.id} reports as planted; withdraw fact ${verified.id} first, or pass another planted with --replacement`,
    );
  }
};

/**
 * Withdraws a reported fact and, in the same transaction, records those that replace it. The fact stays stored with its
 * proof. Facts that needed it wait; contradictions of it are decided again. Repeating it changes nothing.
 * @param options.reason why; operators see it
 * @throws DomainError record_not_found, or request_invalid if the replacement is of another order, the order would be
 *   placed again, or it would stay verified without its planting
 */
export const withdrawPlantingFact = (
  context: WithdrawalContext,
  factId: number,
  {
    reason,
    replacement,
    isDryRun,
  }: {
    readonly reason: string;
    readonly replacement: PlantingReport | null;
    readonly isDryRun: boolean;
  },
): Promise<CorrectedOrder> =>
  correctOrder(context, factId, isDryRun, {
    action: "evidence.withdraw",
    run: async (transaction, before, fact, now) => {
      if (replacement && replacement.order !== before.publicId) {
        throw invalidRequest(
          `the replacement is of ${replacement.order}, but the fact is of ${before.publicId}`,
        );
      }
      let order = before;
      if (fact.state !== "withdrawn") {
        await withdrawFact(transaction, fact.id, {
          reason,
          operator: context.actor.name,
          withdrawnAt: now,
        });
        order = fact.state === "accepted" ? await replay(transaction, before) : before;
      }
      order = await changeTimeline(transaction, order, replacement?.timeline);
      const replaced = await recordFacts(transaction, order, replacement?.facts ?? [], {
        source: "operator",
        now,
      });
      order = await reconsiderContradictions(transaction, replaced.order);
      await requireStillPlaced(transaction, before, order, fact.id);
      await requireStillPlanted(transaction, order, fact);
      await restoreSites(transaction, order);
      return { order, replacement: replaced.recorded };
    },
  });

/**
 * Undoes a withdrawal: the fact takes effect again, waits, or contradicts what was recorded meanwhile.
 * @throws DomainError record_not_found, or request_invalid if the fact is not withdrawn
 */
export const reinstatePlantingFact = (
  context: WithdrawalContext,
  factId: number,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<CorrectedOrder> =>
  correctOrder(context, factId, isDryRun, {
    action: "evidence.reinstate",
    run: async (transaction, before, fact) => {
      if (fact.state !== "withdrawn") {
        throw invalidRequest(`fact ${factId} is not withdrawn`);
      }
      await reconsiderFacts(transaction, before.id, fact.id);
      return { order: await settleFacts(transaction, before), replacement: [] };
    },
  });
