import { Option } from "commander";
import type { Command } from "commander";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { listFacts } from "../../modules/planting/facts.sql.ts";
import type { StoredFact } from "../../modules/planting/facts.sql.ts";
import { listPlantingOrders, listPlantingOrdersWithId } from "../../modules/planting/orders.sql.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { ORDER_STAGES } from "../../modules/planting/order.rules.ts";
import type { OrderStage, PlantingOrder } from "../../modules/planting/order.rules.ts";
import { getOrganizationOrStore } from "../../modules/accounts/getAccount.ts";
import { getRecordId } from "../../modules/records/getRecordId.ts";
import { clearCachedResponses } from "../../modules/planting/clearCachedResponses.ts";
import type { CachedResponses } from "../../modules/planting/clearCachedResponses.ts";
import { plantingOrderWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { recordOwnerOption } from "../accountOptions.ts";
import type { RecordOwnerOptions } from "../accountOptions.ts";
import { parseId, parseLimit, parseRecordId } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printJson, printRecord, printRows, printText, sayIfMore } from "../output/print.ts";
import type { JsonOption } from "../output/print.ts";
import { addReportCommands } from "./plantingReports.ts";

/** @param deployment the deployment's name in Temporal */
const presentOrder = (deployment: string, order: PlantingOrder) => ({
  id: order.id,
  public_id: order.publicId,
  evidence_order_id: order.shownId,
  evidence_public_id: order.shownPublicId,
  org_id: order.accountId,
  mode: order.mode,
  partner: order.partner,
  partner_reference: order.partnerReference,
  buyer: order.buyerName,
  trees: order.treeCount,
  refunded_trees: order.refundedCount,
  timeline: order.timeline,
  stage: order.stage,
  created_at: order.createdAt.toISOString(),
  planted_at: order.plantedAt?.toISOString() ?? null,
  verified_at: order.verifiedAt?.toISOString() ?? null,
  workflow_id: plantingOrderWorkflowId(deployment, order.id),
});

type ListOptions = {
  readonly org?: string;
  readonly stage?: OrderStage;
  readonly contradicted?: true;
  readonly limit: number;
  readonly json?: true;
};

const addOrderListCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("list")
    .description("List planting orders, newest first")
    .option("--org <id>", "id of the organization or store", parseId)
    .addOption(new Option("--stage <stage>", "stage of the orders").choices(ORDER_STAGES))
    .option("--contradicted", "only orders with contradictions")
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action(async ({ org, stage, contradicted, limit, json }: ListOptions) => {
      const db = await connections.database();
      if (org !== undefined) {
        await getOrganizationOrStore(db, org);
      }
      const found = await listPlantingOrders(db, {
        ...(org === undefined ? {} : { accountId: org }),
        ...(stage === undefined ? {} : { stage }),
        ...(contradicted ? { contradicted } : {}),
        limit: limit + 1,
      });
      const orders = found.slice(0, limit);
      if (json) {
        const deployment = await connections.deploymentName();
        printJson(
          io,
          orders.map((order) => presentOrder(deployment, order)),
        );
      } else {
        printRows(io, orders, {
          order: (order) => String(order.id),
          "public id": (order) => order.publicId,
          "in evidence": (order) =>
            order.shownPublicId === order.publicId ? null : order.shownPublicId,
          buyer: (order) => order.buyerName,
          mode: (order) => order.mode,
          partner: (order) => order.partner,
          trees: (order) => order.treeCount,
          stage: (order) => order.stage,
          created: (order) => order.createdAt,
        });
      }
      sayIfMore(io, found.length, limit);
    });
};

const presentFact = (fact: StoredFact) => ({
  fact: fact.id,
  stage: fact.stage,
  state: fact.state,
  reason: fact.reason,
  source: fact.source,
  occurred_at: fact.occurredAt.toISOString(),
  received_at: fact.receivedAt.toISOString(),
  withdrawn_at: fact.withdrawnAt?.toISOString() ?? null,
  withdrawn_by: fact.withdrawnBy,
  content: fact.content,
});

/** The most orders that an error names. */
const NAMED = 10;

/** Returns the only order that has an id, of those that operators and clients see. */
const getOrder = async (db: DatabasePool, given: string): Promise<PlantingOrder> => {
  const found = await listPlantingOrdersWithId(db, given, NAMED);
  const [order, ...others] = found;
  if (!order) {
    throw new CommandError(
      EXIT.notFound,
      `Planting order ${given} not found. See impact evidence order list.`,
    );
  }
  if (others.length > 0) {
    const lines = found.map(
      ({ id, publicId, accountId, shownId, shownPublicId }) =>
        `  ${publicId}: order ${id} of account ${accountId}, in evidence ${shownId} and ${shownPublicId}`,
    );
    throw new CommandError(
      EXIT.failed,
      `Several planting orders have the id ${given}. Name one by its public id:\n${lines.join("\n")}`,
    );
  }
  return order;
};

const addOrderShowCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("show")
    .description("Show a planting order and its reported facts")
    .argument("<order>", "number or public id of the order, here or in evidence")
    .action(async (id: string, { json }: JsonOption) => {
      const db = await connections.database();
      const order = await getOrder(db, id);
      const facts = await listFacts(db, order.id);
      const presented = presentOrder(await connections.deploymentName(), order);
      if (json) {
        printJson(io, { ...presented, facts: facts.map(presentFact) });
        return;
      }
      printRecord(io, {
        order: String(order.id),
        "public id": order.publicId,
        "order in evidence": String(order.shownId),
        "public id in evidence": order.shownPublicId,
        account: order.accountId,
        buyer: order.buyerName,
        mode: order.mode,
        partner: order.partner,
        "partner reference": order.partnerReference,
        trees: order.treeCount,
        "refunded trees": order.refundedCount,
        timeline: order.timeline,
        stage: order.stage,
        created: order.createdAt,
        planted: order.plantedAt,
        verified: order.verifiedAt,
        workflow: presented.workflow_id,
      });
      io.stdout.write("\n");
      printRows(io, facts, {
        fact: (fact) => String(fact.id),
        stage: (fact) => fact.stage,
        state: (fact) => fact.state,
        source: (fact) => fact.source,
        occurred: (fact) => fact.occurredAt,
        received: (fact) => fact.receivedAt,
        "withdrawn by": (fact) => fact.withdrawnBy,
        reason: (fact) => fact.reason,
      });
    });
};

type ClearOptions = ChangeOptions &
  RecordOwnerOptions & {
    readonly tree?: string;
    readonly summary?: true;
    readonly all?: true;
  };

const requireOneSelection = ({ tree, summary, all }: ClearOptions): void => {
  if ([tree, summary, all].filter((option) => option !== undefined).length !== 1) {
    throw new CommandError(EXIT.usage, "Pass one of --tree, --summary and --all.");
  }
};

const selectResponses = async (
  db: CommonQueryMethods,
  { tree, org, all }: ClearOptions,
): Promise<CachedResponses> => {
  return tree === undefined
    ? { kind: all ? "all" : "summary" }
    : { kind: "tree", registrationId: await getRecordId(db, "registration", tree, org ?? null) };
};

const addCacheClearCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("cache")
      .description("Manage the cache of evidence responses")
      .command("clear")
      .description("Delete cached responses, so that the next requests render new ones")
      .option("--tree <id>", "id of a tree registration", parseRecordId)
      .addOption(recordOwnerOption())
      .option("--summary", "the evidence summary")
      .option("--all", "all cached responses"),
  ).action(async (options: ClearOptions) => {
    const { io } = context;
    requireOneSelection(options);
    const deps = await openChange(context, options);
    const dropped = await clearCachedResponses(deps, await selectResponses(deps.db, options));
    if (options.json) {
      printJson(io, { dropped });
    } else {
      printText(io, `Deleted ${counted(dropped, "cached response")}`);
    }
  });
};

export const addEvidenceCommands = (evidence: Command, context: CliContext): void => {
  const order = evidence.command("order").description("Inspect planting orders");
  addOrderListCommand(order, context);
  addOrderShowCommand(order, context);
  addReportCommands(evidence, context);
  addCacheClearCommand(evidence, context);
};
