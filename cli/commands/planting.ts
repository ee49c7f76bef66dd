import { Option } from "@commander-js/extra-typings";
import type { Command } from "@commander-js/extra-typings";
import { sitesOf } from "../../modules/planting/fact.rules.ts";
import { listFacts } from "../../modules/planting/facts.sql.ts";
import type { StoredFact } from "../../modules/planting/facts.sql.ts";
import { listPlantingOrders, listPlantingOrdersWithId } from "../../modules/planting/orders.sql.ts";
import { ORDER_STAGES } from "../../modules/planting/order.rules.ts";
import type { OrderStage } from "../../modules/planting/order.rules.ts";
import type { PlantingOrder } from "../../modules/planting/orders.sql.ts";
import { plantingOrderWorkflowId } from "../../runtime/temporalNames.rules.ts";
import { accountOption, readAccountFilter } from "../accountOptions.ts";
import { onlyGiven, parseLimit } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { only, printDetails, printList, sayIfMore, snakeCased } from "../output/print.ts";
import type { Fields } from "../output/print.ts";
import { addReportCommands } from "./plantingReports.ts";

const ORDER_COLUMNS = [
  "id",
  "public_id",
  "evidence_public_id",
  "buyer",
  "mode",
  "partner",
  "trees",
  "stage",
  "created_at",
] as const;

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
  created_at: order.createdAt,
  planted_at: order.plantedAt,
  verified_at: order.verifiedAt,
  workflow_id: plantingOrderWorkflowId(deployment, order.id),
});

const printOrders = (
  { io }: CliContext,
  deployment: string,
  orders: readonly PlantingOrder[],
): void => {
  const rows = orders.map((order) => presentOrder(deployment, order));
  printList(io, rows, only(rows, ORDER_COLUMNS));
};

type ListOptions = {
  readonly org?: string;
  readonly stage?: OrderStage;
  readonly contradicted?: true;
  readonly limit: number;
};

const listAll = async (
  context: CliContext,
  { org, stage, contradicted, limit }: ListOptions,
): Promise<void> => {
  const { io, connections } = context;
  const db = await connections.database();
  const accountId = await readAccountFilter(db, org);
  const found = await listPlantingOrders(db, {
    ...(accountId === null ? {} : { accountId }),
    ...onlyGiven({ stage, contradicted }),
    limit: limit + 1,
  });
  printOrders(context, await connections.deploymentName(), found.slice(0, limit));
  sayIfMore(io, found.length, limit);
};

const presentFact = ({ id, digest: _digest, ...fact }: StoredFact): Fields => ({
  fact: id,
  ...snakeCased(fact),
});

const FACT_COLUMNS = [
  "fact",
  "stage",
  "state",
  "source",
  "occurred_at",
  "received_at",
  "withdrawn_by",
  "reason",
];

/** What a fact shows: its sites, photos and videos. */
const proofsOf = ({ id, content }: StoredFact) => {
  const photos = content.stage === "planted_and_verified" ? content.photos : [];
  const media = content.stage === "planted" ? content.media : [];
  return [
    ...sitesOf(content).map(({ name, region, country, reference }) => ({
      shows: "site",
      proof: `${name}, ${region}, ${country} (${reference})`,
    })),
    ...photos.map((proof) => ({ shows: "photo", proof })),
    ...media.map(({ type, url }) => ({ shows: type, proof: url })),
  ].map(({ shows, proof }) => ({ fact: String(id), shows, proof }));
};

/** Shows the only order that has an id, of those that operators and clients see; lists them if there are several. */
const showOne = async (
  context: CliContext,
  given: string,
  { limit }: ListOptions,
): Promise<void> => {
  const { io, connections } = context;
  const db = await connections.database();
  const found = await listPlantingOrdersWithId(db, given, limit);
  const [order, ...others] = found;
  if (!order) {
    throw new CommandError(
      EXIT.notFound,
      `Planting order ${given} not found. See impact evidence order list.`,
    );
  }
  const deployment = await connections.deploymentName();
  if (others.length > 0) {
    printOrders(context, deployment, found);
    throw new CommandError(
      EXIT.usage,
      `Several planting orders have the id ${given}. Name one by its public id.`,
    );
  }
  const facts = await listFacts(db, order.id);
  const presented = presentOrder(deployment, order);
  const { id, ...fields } = presented;
  const shown = facts.map(presentFact);
  printDetails(
    io,
    { ...presented, facts: shown },
    { order_id: id, ...fields, facts: only(shown, FACT_COLUMNS), proofs: facts.flatMap(proofsOf) },
  );
};

export const addEvidenceCommands = (evidence: Command, context: CliContext): void => {
  evidence
    .command("order")
    .description("Inspect planting orders")
    .command("list")
    .alias("show")
    .description("List planting orders, newest first, or show one with its facts and their proofs")
    .argument("[order]", "number or public id of an order, here or in evidence")
    .addOption(accountOption())
    .addOption(new Option("--stage <stage>", "stage of the orders").choices(ORDER_STAGES))
    .option("--contradicted", "only orders with contradictions")
    .option("--limit <n>", "maximum rows", parseLimit, 50)
    .action((given, options) =>
      given === undefined ? listAll(context, options) : showOne(context, given, options),
    );
  addReportCommands(evidence, context);
};
